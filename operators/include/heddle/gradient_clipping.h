// Clips the gradients of leaves before an update, without a wait.
#pragma once

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
