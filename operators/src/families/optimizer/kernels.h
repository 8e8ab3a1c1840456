// Kernel types of the ops on all weights, and how optimizers are registered.
//
//   HEDDLE_OPTIMIZERS(signum) {  // in namespace heddle::cpu_kernels, in a file of its own in cpu/
//     table.add<SignumStep>({.name = "signum",
//                            .documentation = "The sign of the gradient.",
//                            .params = {{"lr", 0.1, ParamRange::not_negative}},
//                            .state = [](const ParamValues&) { return StateNames{}; },
//                            .op = "signum_update",
//                            .op_of_rows = "signum_update_rows"});
//   }
//
// where SignumStep<T>, made of an UpdateCall and the count of updates, updates elements: see cpu/steps.h.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include <heddle/gradient_clipping.h>
#include <heddle/optimizer_update.h>

namespace heddle::cpu_kernels {

using operators_detail::OptimizerRule, operators_detail::ParamRange, operators_detail::ParamValues;
using operators_detail::UpdateCall, operators_detail::UpdatedArrays;

using StateNames = std::vector<std::string>;

class RuleTable {
 public:
  explicit RuleTable(std::vector<OptimizerRule>& all) : all_(all) {}
  template <template <class T> class Step> void add(OptimizerRule rule);

 private:
  std::vector<OptimizerRule>& all_;
};

void register_optimizers(RuleTable& table);  // registers the library's optimizers

// Heads the function that registers the optimizers of one file. The build makes the list of these functions
// by looking for this word (cmake/registrations.cmake).
#define HEDDLE_OPTIMIZERS(name)                        \
  void register_##name##_optimizers(RuleTable& table); \
  void register_##name##_optimizers(RuleTable& table)

}  // namespace heddle::cpu_kernels

namespace heddle {

// A gradient to be clipped in place, whole or row-sparse. f32 or f64, contiguous.
struct ClippedGrad {
  NDArray whole{};
  RowSparse rows{};  // undefined if `whole` is defined
};

// Writes the 2-norm of all gradients to `norm`, a scalar of f32 or f64, and scales them.
using ClipNormKernel = void(const KernelContext& context, std::span<const ClippedGrad> grads,
                            const NDArray& norm, double max_norm, bool refuse_nonfinite);
using ClipValueKernel = void(const KernelContext& context, std::span<const ClippedGrad> grads,
                             double max_value);

// Divides the gradients by the scale, which is on the CPU, or sets them to 0, see unscale_gradients(). `nonfinite` is on the device
// of the gradients: a kernel for GPUs writes 0 or 1, one for the CPU at most 1.
using UnscaleKernel = void(const KernelContext& context, std::span<const ClippedGrad> grads,
                           const NDArray& scale, const NDArray& nonfinite);
using LossScaleKernel = void(const KernelContext& context, const operators_detail::LossScaleState& state,
                             double growth, double backoff, std::int64_t interval);

// averages[i] += (1 - decay) * (weights[i] - averages[i]).
using AverageKernel = void(const KernelContext& context, std::span<const NDArray> averages,
                           std::span<const NDArray> weights, double decay);
// Exchanges the elements of a[i] and b[i].
using SwapKernel = void(const KernelContext& context, std::span<const NDArray> a, std::span<const NDArray> b);

}  // namespace heddle
