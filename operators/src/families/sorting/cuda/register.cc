// Registers the kernels that sort and search on GPUs.
#include <bit>

#include <heddle/error.h>

#include "core/kernel_table.h"
#include "cuda/arrays.h"
#include "cuda/data_fault.h"
#include "cuda/scratch.h"
#include "families/sorting/cuda/kernels.h"
#include "families/sorting/kernels.h"

namespace heddle::cuda_kernels {
namespace {

using check::AccessKind;

long long* written_numbers(const NDArray& array) { return static_cast<long long*>(written_address(array)); }
unsigned char type_of(const NDArray& array) { return static_cast<unsigned char>(array.dtype()); }

void run_sort(const KernelContext& context, const NDArray& x, const NDArray& values, const NDArray& indices,
              std::int64_t first, std::int64_t count, bool descending) {
  const std::int64_t length = x.shape()[x.ndim() - 1];
  const SortLines job{
      address(x, AccessKind::read), x.size() / length,       length, first, count, type_of(x), descending,
      written_address(values),      written_numbers(indices)};
  const Scratch space(context, sort_space(job));
  check_launch(context, launch_sort(context.stream().native(), job, space.as()));
}

void sort_kernel(const KernelContext& context, const NDArray& x, const NDArray& values,
                 const NDArray& indices, bool descending) {
  if (x.size() == 0) return;
  run_sort(context, x, values, indices, 0, x.shape()[x.ndim() - 1], descending);
}

void select_kernel(const KernelContext& context, const NDArray& x, const NDArray& values,
                   const NDArray& indices, std::int64_t first, bool descending) {
  if (values.size() == 0) return;
  run_sort(context, x, values, indices, first, values.shape()[values.ndim() - 1], descending);
}

void unique_kernel(const KernelContext& context, const NDArray& x, const NDArray& values,
                   const NDArray& indices, const NDArray& inverse, const NDArray& counts,
                   const NDArray& number, bool equal_nan) {
  if (x.size() > 1ll << 32) throw Error(with_call_site("unique: more than 2^32 elements"));
  const UniqueJob job{read_address(x),
                      x.size(),
                      type_of(x),
                      equal_nan,
                      written_address(values),
                      written_numbers(indices),
                      written_numbers(inverse),
                      written_numbers(counts),
                      written_numbers(number)};
  const Scratch space(context, unique_space(job));
  check_launch(context, launch_unique(context.stream().native(), job, space.as()));
}

void search_kernel(const KernelContext& context, const NDArray& sorted, const NDArray& values,
                   const NDArray& y, bool right) {
  if (y.size() == 0) return;
  check_launch(context,
               launch_search(context.stream().native(), read_address(sorted), sorted.size(),
                             strided(values, AccessKind::read), strided(y, AccessKind::write), right));
}

void histogram_kernel(const KernelContext& context, const NDArray& x, const NDArray& edges,
                      const NDArray& counts) {
  check_launch(context,
               launch_histogram(context.stream().native(), read_address(x), x.size(), read_address(edges),
                                counts.size(), type_of(edges), written_numbers(counts)));
}

void bincount_kernel(const KernelContext& context, const NDArray& x, const NDArray& y) {
  const DataFault fault(context);
  check_launch(context,
               launch_bincount(context.stream().native(), static_cast<const long long*>(read_address(x)),
                               x.size(), written_numbers(y), y.size(), fault.slot()));
  fault.check(context, [](const FaultSlot&) {
    throw Error(with_call_site("bincount: x has changed since its range was looked at"));
  });
}

void histogram_edges_kernel(const KernelContext& context, const NDArray& least, const NDArray& most,
                            const NDArray& edges) {
  const DataFault fault(context);
  check_launch(context, launch_edges(context.stream().native(), read_address(least), read_address(most),
                                     written_address(edges), edges.size() - 1, type_of(edges), fault.slot()));
  fault.check(context, [](const FaultSlot& found) {
    const auto low = std::bit_cast<double>(found.value), high = std::bit_cast<double>(found.other);
    found.kind == kInfiniteBounds ? refuse_infinite_bounds(low, high) : refuse_order_of_bounds(low, high);
  });
}

void checked_fractions_kernel(const KernelContext& context, const NDArray& x, const NDArray& y) {
  const DataFault fault(context);
  check_launch(context,
               launch_fractions(context.stream().native(), static_cast<const double*>(read_address(x)),
                                static_cast<double*>(written_address(y)), x.size(), fault.slot()));
  fault.check(context, [](const FaultSlot& found) { refuse_fraction(std::bit_cast<double>(found.value)); });
}

}  // namespace
}  // namespace heddle::cuda_kernels

namespace heddle {

HEDDLE_CUDA_KERNELS(sorting) {
  using namespace cuda_kernels;
  table.add<SortKernel>("sort", DeviceKind::cuda, sort_kernel);
  table.add<SelectKernel>("select", DeviceKind::cuda, select_kernel);
  table.add<UniqueKernel>("unique", DeviceKind::cuda, unique_kernel);
  table.add<SearchKernel>("searchsorted", DeviceKind::cuda, search_kernel);
  table.add<HistogramKernel>("histogram", DeviceKind::cuda, histogram_kernel);
  table.add<BincountKernel>("bincount", DeviceKind::cuda, bincount_kernel);
  table.add<HistogramEdgesKernel>("histogram_edges", DeviceKind::cuda, histogram_edges_kernel);
  table.add<CheckedFractionsKernel>("checked_fractions", DeviceKind::cuda, checked_fractions_kernel);
}

}  // namespace heddle
