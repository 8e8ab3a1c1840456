#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <heddle/optimizer_update.h>

#include "core/operator.h"
#include "families/optimizer/kernels.h"

namespace heddle::operators_detail {
namespace {

// Pushes an op that reads and writes `mutated` and `updates`, and reads `grads`. Calls fn with the op's
// context and the number of earlier updates.
template <class F>
void push_update(const char* name, const std::vector<NDArray>& grads, std::vector<NDArray> mutated,
                 const NDArray& updates, F&& fn) {
  mutated.push_back(updates);
  std::vector<NDArray> reads = mutated;
  reads.insert(reads.end(), grads.begin(), grads.end());
  push_op(name, reads, mutated, [updates, fn = std::forward<F>(fn)](const KernelContext& context) {
    std::int64_t& count = *updates.data<std::int64_t>();
    fn(context, count);
    ++count;
  });
}

std::vector<NDArray> parts_of(const RowSparse& grad) { return {grad.rows(), grad.values(), grad.count()}; }

std::vector<NDArray> mutated_by_sgd(const NDArray& weight, const SgdState& state) {
  if (!state.velocity.defined()) return {weight};
  return {state.velocity, weight};
}

constinit thread_local LaunchedRates* current_rates = nullptr;

}  // namespace

LaunchedRates::LaunchedRates(Slot<UpdateRates> rates)
    : rates_(std::move(rates)), previous_(std::exchange(current_rates, this)) {}

LaunchedRates::~LaunchedRates() { current_rates = previous_; }

void LaunchedRates::set_lr_factor(double factor) {
  if (current_rates) current_rates->lr_factor_ = factor;
}

LaunchedRates::OfUpdate LaunchedRates::take() {
  if (!current_rates) return {};
  ++current_rates->updates_;
  return {current_rates->rates_, current_rates->lr_factor_};
}

void sgd_update(const NDArray& weight, const NDArray& grad, const SgdState& state, const SgdStep& step) {
  auto* kernel = kernel_for<SgdKernel>("sgd_update", weight);
  push_update(
      "sgd_update", {grad}, mutated_by_sgd(weight, state), state.updates,
      [=, velocity = state.velocity, step = LaunchedStep(step)](const KernelContext& context, std::int64_t) {
        kernel(context, weight, velocity, grad, step.now());
      });
}

void sgd_update(const NDArray& weight, const RowSparse& grad, const SgdState& state, const SgdStep& step) {
  auto* kernel = kernel_for<SgdRowsKernel>("sgd_update_rows", weight);
  push_update(
      "sgd_update_rows", parts_of(grad), mutated_by_sgd(weight, state), state.updates,
      [=, velocity = state.velocity, step = LaunchedStep(step)](const KernelContext& context, std::int64_t) {
        kernel(context, weight, velocity, grad, step.now());
      });
}

void adam_update(const NDArray& weight, const NDArray& grad, const AdamState& state, const AdamStep& step) {
  auto* kernel = kernel_for<AdamKernel>("adam_update", weight);
  push_update("adam_update", {grad}, {state.mean, state.variance, weight}, state.updates,
              [=, mean = state.mean, variance = state.variance, step = LaunchedStep(step)](
                  const KernelContext& context, std::int64_t earlier) {
                AdamStep now = step.now();
                const auto updates = static_cast<double>(earlier + 1);
                now.mean_unbias = 1 / (1 - std::pow(now.beta1, updates));
                now.variance_unbias = 1 / (1 - std::pow(now.beta2, updates));
                kernel(context, weight, mean, variance, grad, now);
              });
}

void adam_update(const NDArray& weight, const RowSparse& grad, const AdamState& state, const AdamStep& step) {
  auto* kernel = kernel_for<AdamRowsKernel>("adam_update_rows", weight);
  push_update("adam_update_rows", parts_of(grad), {state.mean, state.variance, state.row_updates, weight},
              state.updates,
              [=, mean = state.mean, variance = state.variance, counts = state.row_updates,
               step = LaunchedStep(step)](const KernelContext& context, std::int64_t earlier) {
                kernel(context, weight, mean, variance, counts, grad, step.now(), earlier);
              });
}

}  // namespace heddle::operators_detail
