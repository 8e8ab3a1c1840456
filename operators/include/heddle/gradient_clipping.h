// Ops on all gradients before an update, without a wait: clipping, and what loss scaling (loss_scaler.h) does.
#pragma once

#include <cstdint>
#include <vector>

#include <heddle/ndarray.h>

namespace heddle {

struct ClipOptions {
  // true: if the norm is NaN or infinite, the op fails, and so do the updates by these gradients, which then
  // change nothing (Trainer::clear_errors goes on). false: such gradients stay as they are.
  bool refuse_nonfinite = false;
};

// Scales the gradients of the leaves, which are f32 or f64, to a common 2-norm of max_norm at most: by min(1,
// max_norm / (norm + 1e-6)). Returns the norm before: a scalar, f64 if a gradient is, else f32. One op, whose
// sums are in f64 and in a fixed order. Dense gradients change in place; row-sparse ones, and those on a
// tape, are replaced. A leaf that comes twice counts once; one without a gradient not at all. Throws
// InvalidArgument.
NDArray clip_grad_norm(const std::vector<NDArray>& leaves, double max_norm, const ClipOptions& options = {},
                       Where where = Where::current());

// Clips each element of the gradients into [-max_value, max_value]; NaN stays. Else as clip_grad_norm().
void clip_grad_value(const std::vector<NDArray>& leaves, double max_value, Where where = Where::current());

}  // namespace heddle

namespace heddle::operators_detail {

// Of one element each, on cpu(), also for gradients on a GPU.
struct LossScaleState {
  NDArray scale;      // f32: what losses are multiplied by
  NDArray nonfinite;  // f32: 1 if a gradient of this step had inf or NaN, else 0
  NDArray good;       // i64: steps without one since the scale was changed
  NDArray skipped;    // i64: steps with one
};

// Divides the dense and row-sparse gradients of the leaves, f32 or f64, by the scale, in place. If any element is inf or NaN, sets
// `nonfinite` to 1 and all elements to 0. One op; a leaf that comes twice counts once.
void unscale_gradients(const std::vector<NDArray>& leaves, const LossScaleState& state);

// Ends a step: after one with inf or NaN multiplies the scale by `backoff`, after `interval` ones without by `growth`, within f32's
// normal numbers. Sets `nonfinite` to 0. One op.
void update_loss_scale(const LossScaleState& state, double growth, double backoff, std::int64_t interval);

// While one lives, updates of weights that its thread pushes change nothing when they run if the array's element is not 0.
class SkippedUpdates {
 public:
  explicit SkippedUpdates(NDArray skips);
  ~SkippedUpdates();
  SkippedUpdates(const SkippedUpdates&) = delete;
  SkippedUpdates& operator=(const SkippedUpdates&) = delete;
  static NDArray current();  // the innermost one's array; undefined if there is none

 private:
  NDArray skips_;
  SkippedUpdates* const previous_;
};

}  // namespace heddle::operators_detail
