// Clipping of the gradients of a network's parameters: gradient_clipping.h, for a list of parameters.
//
//   backward(loss);
//   const NDArray norm = clip_grad_norm(net.parameters(), 1.0);  // before the update, without a wait
//   trainer.step();
#pragma once

#include <vector>

#include <heddle/gradient_clipping.h>
#include <heddle/module.h>

namespace heddle {

// The norm of the gradients of this process, which are clipped before a store adds those of all workers.
NDArray clip_grad_norm(const std::vector<Parameter>& parameters, double max_norm,
                       const ClipOptions& options = {}, Where where = Where::current());
void clip_grad_value(const std::vector<Parameter>& parameters, double max_value,
                     Where where = Where::current());

}  // namespace heddle
