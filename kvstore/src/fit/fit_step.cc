#include "fit/fit_step.h"

#include <cmath>
#include <limits>
#include <utility>

#include <heddle/array_op.h>
#include <heddle/autograd.h>
#include <heddle/clip_grad.h>
#include <heddle/elementwise.h>
#include <heddle/module_buffers.h>
#include <heddle/number_text.h>
#include <heddle/replaceable_calls.h>

namespace heddle::fit_detail {
namespace {

// `checked`, which has the error of a value that is refused, once all ranks have theirs: fails on all of them if one does, also
// by another error. Gradients do not wait for it.
NDArray agreed_value(const NDArray& value, const NDArray& checked, bool refuses, Communicator& ranks) {
  const NDArray bad({}, DType::i32),
      agreed({}, DType::f64);  // bad: a rank whose loss is refused + 1; 0: none
  array_push("fit_loss_rank", OpCost::per_element, {value}, {bad},
             [value, bad, refuses, rank = ranks.rank()] {
               const bool is_good = !refuses || std::isfinite(*value.data<const double>());
               *bad.data<std::int32_t>() = is_good ? 0 : rank + 1;
             });
  ranks.all_reduce(bad, ReduceOp::max);
  array_push("fit_loss_check", OpCost::per_element, {checked, bad}, {agreed}, [checked, bad, agreed] {
    if (const int rank = *bad.data<const std::int32_t>() - 1; rank >= 0) throw LossNotFinite::of_rank(rank);
    *agreed.data<double>() = *checked.data<const double>();
  });
  return agreed;
}

// An op that copies the loss and makes the seed of its gradients. Of a loss that is not finite the seed is NaN, so that a scaler
// skips the step, or the op fails if it `refuses` it.
struct CheckedLoss {
  NDArray value, seed;
};

CheckedLoss check_loss(const NDArray& value, bool refuses) {
  CheckedLoss checked{NDArray({}, DType::f64), NDArray({}, DType::f64)};
  array_push("fit_loss_check", OpCost::per_element, {value}, {checked.value, checked.seed},
             [value, to = checked.value, seed = checked.seed, refuses] {
               const double x = *value.data<const double>();
               if (!std::isfinite(x) && refuses) throw LossNotFinite(x);
               *to.data<double>() = x;
               *seed.data<double>() = std::isfinite(x) ? 1 : std::numeric_limits<double>::quiet_NaN();
             });
  return checked;
}

// 1, or NaN if the loss is not finite: what check_loss() gives, by ops on the device of the loss.
NDArray seed_there(const NDArray& loss, DType dtype) { return loss.detach().astype(dtype) * 0 + 1; }

bool is_capturable(const Module& net, const FitOptions& options, const BatchLoss& loss) {
  if (options.capture != FitCapture::automatic) return options.capture == FitCapture::always;
  return loss.has_names() && has_replaceable_calls(net);
}

}  // namespace

LossNotFinite::LossNotFinite(double loss) : Error("the loss is " + number_text(loss)) {}
LossNotFinite::LossNotFinite(const std::string& message, int rank) : Error(message), rank_(rank) {}
LossNotFinite LossNotFinite::of_rank(int rank) {
  return {"the loss of rank " + std::to_string(rank) + " is not finite", rank};
}

FitStep::FitStep(Module& net, Trainer& trainer, const FitOptions& options, const BatchLoss& loss,
                 bool needs_outputs)
    : net_(net),
      trainer_(trainer),
      options_(options),
      loss_(loss),
      needs_outputs_(needs_outputs),
      ranks_(trainer.store().communicator()),
      losses_(loss.names().size()) {
  const std::string type = trainer.store().type();
  if (type == "allreduce" || type == "dist_sync") share_ = 1.0 / trainer.store().workers();
  if (!is_capturable(net, options, loss) || type.starts_with("dist_")) return;
  captured_.emplace(trainer, CapturedStep::Function([this](const Arrays& all) { return train(all); }));
}

void FitStep::find_leaves() {
  leaves_.clear();
  for (const auto& all : {net_.state(), trainer_.parameters()})
    for (const Parameter& one : all) leaves_.push_back(one.value);
  device_ = device_of(net_);
}

void FitStep::clear_gradients() const {
  for (const NDArray& one : leaves_) clear_grad(one);
}

void FitStep::split(const Arrays& batch, Arrays& inputs, Arrays& labels) const {
  const std::size_t count = options_.labels >= 0 ? static_cast<std::size_t>(options_.labels) : loss_.labels();
  split_batch("fit", batch, count, inputs, labels);
}

// On a GPU the gradients do not wait until a loss that is refused has been looked at on the CPU: the update does. With other
// stores than a local one the gradients have to fail, so that they fail on all workers.
void FitStep::train_batch(const Arrays& batch, Arrays& results, Arrays& checks) {
  Arrays inputs, labels;
  split(batch, inputs, labels);
  const Arrays outputs = net_.run(inputs);
  Arrays losses = loss_.compute(outputs, labels);
  const std::optional<LossScaler>& scaler = trainer_.scaler();
  const NDArray loss = losses[0], scaled = scaler ? scaler->scale(loss) : loss;
  const NDArray value = on_host(loss.detach().astype(DType::f64));
  const bool refuses = options_.stop_on_nan && !scaler;
  CheckedLoss checked{value, {}};
  if (options_.stop_on_nan) checked = check_loss(value, refuses);
  const bool has_others = ranks_ && ranks_->size() > 1;
  losses[0] = has_others ? agreed_value(value, checked.value, refuses, *ranks_) : checked.value;
  if (!checked.seed.defined()) {
    backward(scaled);
  } else if (scaled.device().kind == DeviceKind::cuda && (!refuses || trainer_.store().type() == "local")) {
    if (refuses) checks.push_back(checked.value);
    backward(scaled, {.seed = seed_there(loss, scaled.dtype())});
  } else {
    const NDArray seed = checked.seed.astype(scaled.dtype());
    backward(scaled, {.seed = scaled.device() == cpu() ? seed : seed.copy_to(scaled.device())});
  }
  for (const NDArray& one : losses) results.push_back(one.detach());
  if (!needs_outputs_) return;
  for (const NDArray& one : outputs) results.push_back(one.detach());
}

// The gradients are sums over the batches, of which the means are clipped.
void FitStep::clip(std::size_t batches) const {
  if (options_.clip_norm == 0 && options_.clip_value == 0) return;
  if (std::optional<LossScaler> scaler = trainer_.scaler()) scaler->unscale(trainer_.parameters());
  const auto count = static_cast<double>(batches);
  if (options_.clip_norm > 0) clip_grad_norm(trainer_.parameters(), options_.clip_norm * count);
  if (options_.clip_value > 0) clip_grad_value(trainer_.parameters(), options_.clip_value * count);
}

// The update has the errors of `checks`.
void FitStep::step_if(const Arrays& checks, double grad_scale) {
  if (checks.empty()) return trainer_.step(grad_scale);
  const NDArray scale({}, DType::f64);
  const std::span<const NDArray> written(&scale, 1);
  const Access access = array_access("fit_loss_check", checks, written);
  ndarray_detail::push_for(
      checks, written, [scale, grad_scale] { *scale.data<double>() = grad_scale; }, access,
      CallSite::current());
  trainer_.step(scale);
}

Arrays FitStep::train(const Arrays& all) {
  Arrays results, checks;
  const std::size_t batches = all.size() / batch_arrays_;
  for (std::size_t i = 0; i < batches; ++i) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i * batch_arrays_);
    train_batch({begin, begin + static_cast<std::ptrdiff_t>(batch_arrays_)}, results, checks);
  }
  clip(batches);
  step_if(checks, share_ / static_cast<double>(batches));
  clear_gradients();
  return results;
}

std::vector<StepResult> FitStep::run(const std::vector<Arrays>& group, Where where) {
  clear_gradients();
  Arrays all;
  batch_arrays_ = group[0].size();
  for (const Arrays& batch : group) {
    if (batch.size() != batch_arrays_)
      throw InvalidArgument("fit: a batch has " + std::to_string(batch.size()) + " arrays, the one before " +
                            std::to_string(batch_arrays_));
    for (const NDArray& one : on_device(batch)) all.push_back(one.defined() ? one.detach() : one);
  }
  const Arrays results = captured_ ? captured_->run(all, where) : train(all);
  const std::size_t each = results.size() / group.size();
  std::vector<StepResult> steps(group.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    StepResult& step = steps[i / each];
    (i % each < losses_ ? step.losses : step.outputs).push_back(results[i]);
  }
  return steps;
}

}  // namespace heddle::fit_detail
