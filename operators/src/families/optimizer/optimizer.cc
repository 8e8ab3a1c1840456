#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <heddle/gradient_clipping.h>
#include <heddle/optimizer_update.h>

#include "core/operator.h"
#include "families/optimizer/kernels.h"

namespace heddle::operators_detail {
namespace {

// The kernel of a rule for the device of the weight. Those for GPUs are in the table of kernels, by the name of the rule.
template <class Fn>
Fn* kernel_on(const NDArray& weight, const OptimizerRule& rule, Fn* on_cpu, const char* suffix) {
  const DeviceKind kind = weight.device().kind;
  return kind == DeviceKind::cpu ? on_cpu : kernels().find<Fn>(rule.name + suffix, kind);
}

// The call with what the launch of a graph and the array `scale` give. Only inside the op.
UpdateCall call_now(const LaunchedStep<UpdateCall>& step) {
  UpdateCall call = step.now();
  if (call.scale.defined())
    call.grad_scale *= call.scale.dtype() == DType::f64
                           ? *call.scale.data<const double>()
                           : static_cast<double>(*call.scale.data<const float>());
  return call;
}

// Adds the array that the op of a call reads besides its gradients.
std::vector<NDArray> with_scale(std::vector<NDArray> read, const UpdateCall& call) {
  if (call.scale.defined()) read.push_back(call.scale);
  return read;
}

// Pushes an op that reads and writes the arrays of `mutated`, and reads `grads`. Calls fn with the op's
// context and the number of earlier updates.
template <class F>
void push_counted(const char* name, const UpdatedArrays& arrays, const std::vector<NDArray>& grads, F&& fn) {
  std::vector<NDArray> mutated = arrays.state;
  if (arrays.row_updates.defined()) mutated.push_back(arrays.row_updates);
  mutated.push_back(arrays.weight);
  mutated.push_back(arrays.updates);
  std::vector<NDArray> reads = mutated;
  reads.insert(reads.end(), grads.begin(), grads.end());
  const NDArray skips = SkippedUpdates::current();
  if (skips.defined()) reads.push_back(skips);
  push_op(name, reads, mutated,
          [updates = arrays.updates, skips, fn = std::forward<F>(fn)](const KernelContext& context) {
            if (skips.defined() && *skips.data<const float>() != 0) return;
            std::int64_t& count = *updates.data<std::int64_t>();
            fn(context, count);
            ++count;
          });
}

std::vector<OptimizerRule> all_rules() {
  std::vector<OptimizerRule> all;
  cpu_kernels::RuleTable table(all);
  cpu_kernels::register_optimizers(table);
  std::sort(all.begin(), all.end(),
            [](const OptimizerRule& a, const OptimizerRule& b) { return a.name < b.name; });
  return all;
}

constinit thread_local LaunchedRates* current_rates = nullptr;
constinit thread_local SkippedUpdates* current_skips = nullptr;

}  // namespace

LaunchedRates::LaunchedRates(Slot<UpdateRates> rates)
    : rates_(std::move(rates)), previous_(std::exchange(current_rates, this)) {}

LaunchedRates::~LaunchedRates() { current_rates = previous_; }

void LaunchedRates::set_lr_factor(double factor) {
  if (current_rates) current_rates->lr_factor_ = factor;
}

LaunchedRates::OfUpdate LaunchedRates::take(std::size_t updates) {
  if (!current_rates) return {};
  current_rates->updates_ += updates;
  return {current_rates->rates_, current_rates->lr_factor_};
}

SkippedUpdates::SkippedUpdates(NDArray skips)
    : skips_(std::move(skips)), previous_(std::exchange(current_skips, this)) {}

SkippedUpdates::~SkippedUpdates() { current_skips = previous_; }

NDArray SkippedUpdates::current() { return current_skips ? current_skips->skips_ : NDArray(); }

const std::vector<OptimizerRule>& optimizer_rules() {
  static const std::vector<OptimizerRule>& all = *new std::vector(all_rules());
  return all;
}

void push_update(const OptimizerRule& rule, const UpdatedArrays& arrays, const NDArray& grad,
                 const UpdateCall& call) {
  push_counted(rule.op, arrays, with_scale({grad}, call),
               [kernel = kernel_on(arrays.weight, rule, rule.whole, "_update"), weight = arrays.weight,
                state = arrays.state, grad,
                call = LaunchedStep(call)](const KernelContext& context, std::int64_t earlier) {
                 kernel(context, weight, state, grad, call_now(call), earlier + 1);
               });
}

void push_update(const OptimizerRule& rule, const UpdatedArrays& arrays, const RowSparse& grad,
                 const UpdateCall& call) {
  push_counted(rule.op_of_rows, arrays, with_scale({grad.rows(), grad.values(), grad.count()}, call),
               [op = rule.op_of_rows, kernel = kernel_on(arrays.weight, rule, rule.of_rows, "_update_rows"),
                weight = arrays.weight, state = arrays.state, counts = arrays.row_updates, grad,
                call = LaunchedStep(call)](const KernelContext& context, std::int64_t earlier) {
                 kernel(context, op, weight, state, counts, grad, call_now(call), earlier);
               });
}

void push_update(const OptimizerRule& rule, std::shared_ptr<const UpdateList> list,
                 std::vector<NDArray> grads, const UpdateCall& call) {
  Access access = array_access(rule.op, grads, list->changed);
  for (const NDArray& array : list->changed) access.read.add(array.var());
  if (call.scale.defined()) access.read.add(call.scale.var());
  const NDArray skips = SkippedUpdates::current();
  if (skips.defined()) access.read.add(skips.var());
  const std::span<const NDArray> reads = grads,
                                 writes = list->changed;  // of memory that the closure takes over
  const LaunchedStep step(call, grads.size());
  ndarray_detail::push_for(
      reads, writes,
      [kernel = kernel_on(list->arrays.front().weight, rule, rule.list, "_update_list"),
       list = std::move(list), grads = std::move(grads), skips, step](const KernelContext& context) {
        if (skips.defined() && *skips.data<const float>() != 0) return;
        kernel(context, list->arrays, grads, call_now(step));
      },
      access, CallSite::current());
}

}  // namespace heddle::operators_detail
