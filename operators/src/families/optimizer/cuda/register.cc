// Registers the kernels of optimizers for GPUs.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <heddle/number_text.h>
#include <heddle/optimizer_update.h>

#include "core/kernel_table.h"
#include "cuda/arrays.h"
#include "cuda/data_fault.h"
#include "cuda/scratch.h"
#include "cuda/sparse_rows.h"
#include "families/optimizer/cuda/kernels.h"
#include "families/optimizer/kernels.h"
#include "families/optimizer/steps/adadelta_functors.h"
#include "families/optimizer/steps/adagrad_functors.h"
#include "families/optimizer/steps/adam_functors.h"
#include "families/optimizer/steps/lamb_functors.h"
#include "families/optimizer/steps/lars_functors.h"
#include "families/optimizer/steps/lion_functors.h"
#include "families/optimizer/steps/nadam_functors.h"
#include "families/optimizer/steps/rmsprop_functors.h"
#include "families/optimizer/steps/sgd_functors.h"
#include "families/row_sparse/cuda/kernels.h"

namespace heddle::cuda_kernels {
namespace {

using operators_detail::UpdateCall, operators_detail::UpdatedArrays, operators_detail::UpdateKernel,
    operators_detail::UpdateListKernel, operators_detail::UpdateRowsKernel;

template <class T>
Part<T> part_of(const NDArray& weight, std::span<const NDArray> state, const NDArray& grad) {
  Part<T> part{weight.size(), written<T>(weight), {}, read<T>(grad)};
  for (std::size_t i = 0; i < state.size(); ++i) part.state[i] = written<T>(state[i]);
  return part;
}

template <class T, template <class> class Step, int rule>
void launch(const KernelContext& context, std::span<const Part<T>> parts, const UpdateCall& call,
            std::int64_t updates) {
  const Step<T> step(call, updates);
  double* sums = nullptr;
  std::optional<Scratch> memory;
  if constexpr (rule < kNormRules) {
    const auto chunks = static_cast<std::size_t>((parts[0].n + kNormGrain - 1) / kNormGrain);
    sums = memory.emplace(context, (2 * chunks + 2) * sizeof(double)).as<double>();
  }
  void* const stream = context.stream().native();
  const int count = static_cast<int>(parts.size());
  if constexpr (std::is_same_v<T, float>)
    check_launch(context, kRules[rule].of_f32(stream, parts.data(), count, &step, sums));
  else
    check_launch(context, kRules[rule].of_f64(stream, parts.data(), count, &step, sums));
}

template <template <class> class Step, int rule>
void update_whole(const KernelContext& context, const NDArray& weight, std::span<const NDArray> state,
                  const NDArray& grad, const UpdateCall& call, std::int64_t updates) {
  if (weight.size() == 0) return;
  if (weight.dtype() == DType::f32) {
    const Part<float> part = part_of<float>(weight, state, grad);
    launch<float, Step, rule>(context, {&part, 1}, call, updates);
  } else {
    const Part<double> part = part_of<double>(weight, state, grad);
    launch<double, Step, rule>(context, {&part, 1}, call, updates);
  }
}

// Weights that follow each other with one count of updates are updated by one launch, up to kMostParts.
template <class T, template <class> class Step, int rule>
void update_list_of(const KernelContext& context, std::span<const UpdatedArrays> all,
                    std::span<const NDArray> grads, const UpdateCall& call) {
  constexpr std::size_t kMost = rule < kNormRules ? 1 : kMostParts;
  std::vector<Part<T>> parts;
  std::int64_t updates = 0;
  const auto flush = [&] {
    if (!parts.empty()) launch<T, Step, rule>(context, parts, call, updates);
    parts.clear();
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].weight.dtype() != dtype_of<T>) continue;
    std::int64_t& count = *all[i].updates.data<std::int64_t>();
    if (parts.size() == kMost || count + 1 != updates) flush();
    updates = ++count;
    if (all[i].weight.size() > 0) parts.push_back(part_of<T>(all[i].weight, all[i].state, grads[i]));
  }
  flush();
}

template <template <class> class Step, int rule>
void update_list(const KernelContext& context, std::span<const UpdatedArrays> all,
                 std::span<const NDArray> grads, const UpdateCall& call) {
  update_list_of<float, Step, rule>(context, all, grads, call);
  update_list_of<double, Step, rule>(context, all, grads, call);
}

PlainCall plain(const UpdateCall& call) {
  PlainCall all{{}, call.lr, call.grad_scale, call.decay_scale};
  if (call.params->size() > PlainCall::kMostParams) throw Error("a rule has too many parameters");
  std::copy(call.params->begin(), call.params->end(), all.params);
  return all;
}

template <class T, template <class> class Step, int rule>
void update_rows_of(const KernelContext& context, const NDArray& weight, std::span<const NDArray> state,
                    const NDArray& row_updates, const RowSparse& grad, const UpdateCall& call,
                    std::int64_t earlier, const DataFault& fault) {
  RowUpdate<T> update{};
  update.all = {weight.size(),
                static_cast<T*>(written_address(weight)),
                {},
                static_cast<const T*>(read_address(grad.values()))};
  for (std::size_t i = 0; i < state.size(); ++i)
    update.all.state[i] = static_cast<T*>(written_address(state[i]));
  update.rows = present_in(grad, 0, fault);
  update.width = row_width(weight.shape());
  const bool counts = row_updates.defined() && row_updates.size() > 0;
  if (counts) update.counts = written<long long>(row_updates);
  update.earlier = earlier;
  update.call = plain(call);
  const Scratch steps(context, "steps of rows",
                      counts ? static_cast<std::size_t>(grad.capacity()) * sizeof(Step<T>) : 0);
  update.steps = steps.data();
  const Step<T> step(call, earlier + 1);
  void* const stream = context.stream().native();
  if constexpr (std::is_same_v<T, float>)
    check_launch(context, kRules[rule].rows_of_f32(stream, update, &step));
  else
    check_launch(context, kRules[rule].rows_of_f64(stream, update, &step));
}

template <template <class> class Step, int rule>
void update_rows(const KernelContext& context, const char* op, const NDArray& weight,
                 std::span<const NDArray> state, const NDArray& row_updates, const RowSparse& grad,
                 const UpdateCall& call, std::int64_t earlier) {
  const DataFault fault(context);
  const auto update =
      weight.dtype() == DType::f32 ? update_rows_of<float, Step, rule> : update_rows_of<double, Step, rule>;
  update(context, weight, state, row_updates, grad, call, earlier, fault);
  fault.check(context,
              [op, bound = grad.shape()[0]](const FaultSlot& found) { refuse_present(op, bound, found); });
}

template <template <class> class Step, int rule> void add_rule(KernelTable& table) {
  table.add<UpdateKernel>(kRules[rule].op, DeviceKind::cuda, update_whole<Step, rule>);
  table.add<UpdateListKernel>(kRules[rule].list_op, DeviceKind::cuda, update_list<Step, rule>);
  if constexpr (rule >= kNormRules)
    table.add<UpdateRowsKernel>(kRules[rule].rows_op, DeviceKind::cuda, update_rows<Step, rule>);
}

// Groups of arrays, each of one launch.
class PieceList {
 public:
  // `other`: the elements of a second array of that size; null: none.
  void add(const NDArray& data, void* other = nullptr, const RowSparse* rows = nullptr) {
    if (data.size() == 0) return;
    if (groups_.empty() || groups_.back().count == kMostPieces) groups_.push_back(Pieces{});
    Pieces& group = groups_.back();
    const long long chunks = (data.size() + kNormGrain - 1) / kNormGrain;
    group.all[group.count++] = {written<void>(data),
                                other,
                                data.size(),
                                chunks_,
                                rows ? read<long long>(rows->count()) : nullptr,
                                rows ? row_width(rows->shape()) : 0,
                                data.dtype() == DType::f64};
    group.chunks += chunks;
    chunks_ += chunks;
  }
  long long chunks() const { return chunks_; }
  template <class F> void for_each(const KernelContext& context, const F& launch_group) const {
    for (const Pieces& group : groups_) check_launch(context, launch_group(context.stream().native(), group));
  }

 private:
  std::vector<Pieces> groups_;
  long long chunks_ = 0;
};

// The gradients that an op changes. Errors of their rows are the CPU's: those of the first gradient that is wrong.
class Gradients {
 public:
  Gradients(const KernelContext& context, const char* op, std::span<const ClippedGrad> grads)
      : context_(context), op_(op) {
    int number = 0;
    for (const ClippedGrad& grad : grads) {
      if (grad.whole.defined())
        list_.add(grad.whole);
      else
        add_rows(grad.rows, number);
      ++number;
    }
  }
  const PieceList& list() const { return list_; }
  // After the last launch of the op.
  void check() {
    if (!fault_) return;
    fault_->check(context_, [op = op_, bounds = std::move(bounds_)](const FaultSlot& found) {
      refuse_present(op, bounds.at(static_cast<int>(found.place / kRowFault)), found);
    });
  }

 private:
  void add_rows(const RowSparse& rows, int number) {
    if (!fault_) fault_.emplace(context_);
    bounds_[number] = rows.shape()[0];
    check_launch(context_, launch_check_rows(context_.stream().native(), present_in(rows, number, *fault_)));
    list_.add(rows.values(), nullptr, &rows);
  }

  const KernelContext& context_;
  const char* op_;
  PieceList list_;
  std::optional<DataFault> fault_;
  std::map<int, std::int64_t> bounds_;  // of the row-sparse ones
};

void clip_norm_kernel(const KernelContext& context, std::span<const ClippedGrad> grads, const NDArray& norm,
                      double max_norm, bool refuse_nonfinite) {
  Gradients all(context, "clip_grad_norm", grads);
  const PieceList& list = all.list();
  const Scratch memory(context, static_cast<std::size_t>(list.chunks() + 1) * sizeof(double));
  double *const sums = memory.as<double>(), *const factor = sums + list.chunks();
  list.for_each(context,
                [&](void* stream, const Pieces& group) { return launch_square_sums(stream, group, sums); });
  std::optional<DataFault> fault;
  if (refuse_nonfinite) fault.emplace(context);
  check_launch(context,
               launch_norm(context.stream().native(), sums, list.chunks(), max_norm, written<void>(norm),
                           norm.dtype() == DType::f64, factor, fault ? fault->slot() : nullptr));
  list.for_each(context,
                [&](void* stream, const Pieces& group) { return launch_scale(stream, group, factor); });
  all.check();
  if (!fault) return;
  fault->check(context, [](const FaultSlot& found) {
    double total;
    std::memcpy(&total, &found.value, sizeof total);
    throw Error("clip_grad_norm: the norm of the gradients is " + number_text(total));
  });
}

void clip_value_kernel(const KernelContext& context, std::span<const ClippedGrad> grads, double max_value) {
  Gradients all(context, "clip_grad_value", grads);
  all.list().for_each(context, [&](void* stream, const Pieces& group) {
    return launch_clip_values(stream, group, max_value);
  });
  all.check();
}

void average_kernel(const KernelContext& context, std::span<const NDArray> averages,
                    std::span<const NDArray> weights, double decay) {
  PieceList list;
  for (std::size_t i = 0; i < averages.size(); ++i)
    list.add(averages[i], const_cast<void*>(read_address(weights[i])));
  list.for_each(context,
                [&](void* stream, const Pieces& group) { return launch_average(stream, group, 1 - decay); });
}

void swap_kernel(const KernelContext& context, std::span<const NDArray> a, std::span<const NDArray> b) {
  PieceList list;
  for (std::size_t i = 0; i < a.size(); ++i) list.add(a[i], written_address(b[i]));
  list.for_each(context, [](void* stream, const Pieces& group) { return launch_swap(stream, group); });
}

// scale is on the CPU; nonfinite, which is written, on the GPU.
void unscale_kernel(const KernelContext& context, std::span<const ClippedGrad> grads, const NDArray& scale,
                    const NDArray& nonfinite) {
  Gradients all(context, "unscale_gradients", grads);
  const PieceList& list = all.list();
  const Scratch memory(context, sizeof(int));
  int* const found = memory.as<int>();
  check_launch(context, launch_clear(context.stream().native(), found));
  list.for_each(context, [&](void* stream, const Pieces& group) {
    return launch_find_nonfinite(stream, group, found);
  });
  const double factor = 1 / static_cast<double>(*scale.data<const float>());
  list.for_each(context, [&](void* stream, const Pieces& group) {
    return launch_unscale(stream, group, factor, found);
  });
  check_launch(context, launch_flag(context.stream().native(), found, written<float>(nonfinite)));
  all.check();
}

}  // namespace
}  // namespace heddle::cuda_kernels

namespace heddle {

HEDDLE_CUDA_KERNELS(optimizer) {
  using namespace cuda_kernels;
  add_rule<functors::LambStep, 0>(table);
  add_rule<functors::LarsStep, 1>(table);
  add_rule<functors::AdadeltaStep, 2>(table);
  add_rule<functors::AdagradStep, 3>(table);
  add_rule<functors::CoupledAdam, 4>(table);
  add_rule<functors::DecoupledAdam, 5>(table);
  add_rule<functors::LionStep, 6>(table);
  add_rule<functors::NadamStep, 7>(table);
  add_rule<functors::RmspropStep, 8>(table);
  add_rule<functors::SgdStep, 9>(table);
  table.add<ClipNormKernel>("clip_grad_norm", DeviceKind::cuda, clip_norm_kernel);
  table.add<ClipValueKernel>("clip_grad_value", DeviceKind::cuda, clip_value_kernel);
  table.add<UnscaleKernel>("unscale_gradients", DeviceKind::cuda, unscale_kernel);
  table.add<AverageKernel>("average_update", DeviceKind::cuda, average_kernel);
  table.add<SwapKernel>("swap_values", DeviceKind::cuda, swap_kernel);
}

}  // namespace heddle
