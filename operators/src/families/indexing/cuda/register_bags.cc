// Registers the kernels of embedding_bag for GPUs.
#include <optional>
#include <string>

#include "core/data_error.h"
#include "core/kernel_table.h"
#include "cuda/arrays.h"
#include "cuda/data_fault.h"
#include "cuda/scratch.h"
#include "cuda/sparse_rows.h"
#include "families/indexing/bag_kernels.h"
#include "families/indexing/cuda/bags.h"
#include "families/indexing/cuda/kernels.h"
#include "families/indexing/scatter_kernels.h"

namespace heddle::cuda_kernels {
namespace {

using check::AccessKind;

// The bags of a problem, their lists in scratch memory, and the report of what is wrong with them.
class CheckedBags {
 public:
  CheckedBags(const KernelContext& context, const BagProblem& problem, const NDArray& indices,
              std::int64_t bound, bool counts)
      : fault_(context),
        bags_(bags_of(problem, indices, bound, fault_)),
        space_(context, lists_bytes(bags_)) {
    check_launch(context, launch_bags(context.stream().native(), bags_, lists(), counts));
    const DType of_offsets = problem.offsets.defined() ? problem.offsets.dtype() : DType::i64;
    fault_.check(context, [op = problem.op, refuse = index_refusal(problem.op, indices, bound), of_offsets,
                           total = bags_.total](const FaultSlot& found) {
      const auto value = static_cast<std::int64_t>(found.value);
      if (found.kind == kBadIndex) refuse(found);
      if (found.kind == kBadOffset)
        refuse_offset(op, text_of(found.value, of_offsets), found.place - kBagFault * kBadOffset, total);
      if (found.kind == kBadFirst) refuse_first_offset(op, value);
      refuse_falling_offset(op, static_cast<std::int64_t>(found.other), value,
                            found.place - kBagFault * kFalling);
    });
  }
  const Bags& bags() const { return bags_; }
  BagLists lists() const { return bag_lists(bags_, space_.as()); }

 private:
  static Bags bags_of(const BagProblem& problem, const NDArray& indices, std::int64_t bound,
                      const DataFault& fault) {
    Bags bags{};
    bags.indices = index_list(indices, bound, false, fault.slot());
    bags.has_offsets = problem.offsets.defined();
    if (bags.has_offsets) bags.offsets = strided(problem.offsets, AccessKind::read);
    bags.count = problem.bags;
    bags.length = problem.length;
    bags.total = indices.size();
    bags.padding = problem.padding;
    bags.mode = static_cast<unsigned char>(problem.mode);
    return bags;
  }

  DataFault fault_;
  Bags bags_;
  Scratch space_;
};

void embedding_bag_kernel(const KernelContext& context, const BagProblem& problem, const NDArray& weight,
                          const NDArray& indices, const NDArray& sample_weights, const NDArray& y,
                          const NDArray& places) {
  const CheckedBags checked(context, problem, indices, weight.shape()[0], false);
  if (y.size() == 0) return;
  const BagSums sums{read_address(weight),          read_address(sample_weights),
                     address(y, AccessKind::write), places.defined() ? written<long long>(places) : nullptr,
                     row_width(weight.shape()),     static_cast<unsigned char>(y.dtype())};
  check_launch(context, launch_bag_sums(context.stream().native(), checked.bags(), checked.lists(), sums));
}

// The entries of the gradient of a table: a row for each position.
class GradientEntries {
 public:
  GradientEntries(const KernelContext& context, const BagProblem& problem, const NDArray& gradient,
                  const NDArray& indices, const NDArray& sample_weights, const Shape& table)
      : checked_(context, problem, indices, table[0], problem.mode == BagMode::mean) {
    const Bags& bags = checked_.bags();
    if (bags.total > kLongestSort)
      throw Error(with_call_site(std::string(problem.op) + ": more than 2^32 indices"));
    entries_ = {bags.total, table[0], row_width(table), static_cast<int>(size_of(gradient.dtype())), nullptr};
    const std::size_t bytes = entries_bytes(entries_);
    space_.emplace(context, bytes + static_cast<std::size_t>(bags.total) * sizeof(long long));
    entries_.space = space_->as();
    entries_.factors = read_address(sample_weights);
    auto* const part_of = reinterpret_cast<long long*>(space_->as() + bytes);
    if (problem.mode == BagMode::mean) {
      entries_.parts = checked_.lists().counts;
      entries_.part_of = part_of;
    }
    check_launch(context, launch_bag_entries(context.stream().native(), bags, checked_.lists(),
                                             read_address(gradient), entries_, part_of));
  }
  const RowEntries& entries() const { return entries_; }

 private:
  CheckedBags checked_;
  std::optional<Scratch> space_;
  RowEntries entries_;
};

// Each element gets the gradients of the bags whose maximum it is, in the order of the bags.
void add_maxima(const KernelContext& context, const BagProblem& problem, const NDArray& gradient,
                const NDArray& places, const NDArray& whole) {
  const std::int64_t rows = whole.shape()[0], width = row_width(whole.shape());
  if (gradient.size() == 0) return;
  const auto table = [&](const NDArray& array, std::int64_t first, AccessKind touch) {
    Strided made{
        address(array, touch), 2, {first, width}, {width, 1}, static_cast<unsigned char>(array.dtype())};
    return made;
  };
  ScatterJob job{};
  job.indices = {table(places, problem.bags, AccessKind::read), rows, false, nullptr};
  job.source = table(gradient, problem.bags, AccessKind::read);
  job.y = table(whole, rows, AccessKind::write);
  job.how = static_cast<unsigned char>(Scatter::add);
  if (problem.bags > kLongestSort)
    throw Error(with_call_site(std::string(problem.op) + ": more than 2^32 bags"));
  const Scratch space(context, scatter_bytes(job));
  check_launch(context, launch_scatter(context.stream().native(), job, space.as()));
}

void embedding_bag_gradient_kernel(const KernelContext& context, const BagProblem& problem,
                                   const NDArray& gradient, const NDArray& indices,
                                   const NDArray& sample_weights, const NDArray& places,
                                   const NDArray& whole) {
  if (whole.size() == 0) return;
  if (problem.mode == BagMode::max) return add_maxima(context, problem, gradient, places, whole);
  const GradientEntries made(context, problem, gradient, indices, sample_weights, whole.shape());
  check_launch(context,
               add_entries(context.stream().native(), made.entries(), address(whole, AccessKind::write)));
}

void embedding_bag_rows_kernel(const KernelContext& context, const BagProblem& problem,
                               const NDArray& gradient, const NDArray& indices, const NDArray& sample_weights,
                               const RowSparse& y) {
  const GradientEntries made(context, problem, gradient, indices, sample_weights, y.shape());
  check_launch(context, sum_entries(context.stream().native(), made.entries(), sparse_rows(y)));
}

}  // namespace
}  // namespace heddle::cuda_kernels

namespace heddle {

HEDDLE_CUDA_KERNELS(embedding_bag) {
  using namespace cuda_kernels;
  table.add<EmbeddingBagKernel>("embedding_bag", DeviceKind::cuda, embedding_bag_kernel);
  table.add<EmbeddingBagGradientKernel>("embedding_bag_gradient", DeviceKind::cuda,
                                        embedding_bag_gradient_kernel);
  table.add<EmbeddingBagRowsKernel>("embedding_bag_rows", DeviceKind::cuda, embedding_bag_rows_kernel);
}

}  // namespace heddle
