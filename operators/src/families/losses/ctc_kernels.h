// Kernel types of connectionist temporal classification.
#pragma once

#include <cstdint>
#include <string>

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>

namespace heddle {

struct CtcProblem {
  std::int64_t steps, batch, classes;
  std::int64_t longest;  // room for labels in each target
  std::int64_t labels;   // elements of targets
  bool flat;             // targets are all labels in a row, not (batch, longest)
  std::int64_t blank;
  bool zero_infinity;

  // A target of n labels is a chain of 2 n + 1 states: a blank, a label, a blank, and so on. Elements of an array of
  // their probabilities at each step.
  std::int64_t states() const { return steps * (flat ? 2 * labels + batch : batch * (2 * longest + 1)); }
};

// i64, contiguous, of any values: kernels check them.
struct CtcIds {
  NDArray targets, input_lengths, target_lengths;
};

// Floating arrays are contiguous, of one dtype, f32 or f64. x: (steps, batch, classes). losses: (batch). states gets the probability of
// each state at each step, given the target; undefined: not wanted.
using CtcKernel = void(const KernelContext& context, const CtcProblem& problem, const NDArray& x,
                       const CtcIds& ids, const NDArray& losses, const NDArray& states);
// The gradient of x from g, that of the losses.
using CtcBackwardKernel = void(const KernelContext& context, const CtcProblem& problem, const NDArray& g,
                               const CtcIds& ids, const NDArray& states, const NDArray& x_grad);
// The gradients of g and x from u, that of what CtcBackwardKernel computes.
using CtcCurvatureKernel = void(const KernelContext& context, const CtcProblem& problem, const NDArray& g,
                                const NDArray& x, const CtcIds& ids, const NDArray& u, const NDArray& g_grad,
                                const NDArray& x_grad);

// input_lengths may be undefined. labels: (batch, steps), numbers: (batch), both i64.
using CtcGreedyKernel = void(const KernelContext& context, const CtcProblem& problem, const NDArray& x,
                             const NDArray& input_lengths, const NDArray& labels, const NDArray& numbers);
// scores: (batch), of the dtype of x.
using CtcBeamKernel = void(const KernelContext& context, const CtcProblem& problem, const NDArray& x,
                           const NDArray& input_lengths, std::int64_t beam, const NDArray& labels,
                           const NDArray& numbers, const NDArray& scores);

// Errors of lengths and labels. `what` is "input length" or "target length".
[[noreturn]] void refuse_ctc_length(const char* op, const char* what, std::int64_t sequence,
                                    std::int64_t length, std::int64_t most);
[[noreturn]] void refuse_ctc_label(const CtcProblem& problem, std::int64_t sequence, std::int64_t i,
                                   std::int64_t label);
// Of targets in a row: the sum of their lengths is another number than that of the labels, or above it.
[[noreturn]] void refuse_ctc_sum(const CtcProblem& problem, std::int64_t sum);
[[noreturn]] void refuse_large_ctc_sum(const CtcProblem& problem);

}  // namespace heddle
