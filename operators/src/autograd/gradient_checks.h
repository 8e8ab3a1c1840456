// What a backward pass refuses: tapes that cannot be run, gradients and seeds that do not fit.
#pragma once

#include <cstddef>
#include <string>

#include <heddle/ndarray.h>
#include <heddle/row_sparse.h>

#include "autograd/tape.h"

namespace heddle::operators_detail {

// Throws Error if an array that the node saved has been changed since.
void check_saved(const Node& node);
// The same, and if the tape was freed by something else, which `by` names, or, of a pass that is recorded, has no second gradient.
[[noreturn]] void refuse_freed(const char* call, const Node& node, const std::string& by);
void check_ready(const char* call, const Node& node, bool recorded);

// Throws Error unless a gradient that the node returned fits its input.
void check_gradient(const Node& node, const Input& input, const NDArray& gradient);
void check_gradient(const Node& node, const Input& input, const RowSparse& gradient);
void check_count(const Node& node, std::size_t gradients);
// Throws Error within a FindNaN if the gradient of the node's input has NaN. Waits then.
void check_nan(const Node& node, std::size_t input, const NDArray& gradient);
// Throws Error unless what a hook has returned fits the gradient that it was given.
void check_hooked(const char* name, const NDArray& changed, const NDArray& gradient);

// The gradient with which a pass begins at `root`: the seed, or ones. Throws InvalidArgument if the seed does not fit, or if no
// gradient reaches anything from `root`.
NDArray checked_seed(const char* op, const NDArray& root, const NDArray& seed, bool create_graph);

}  // namespace heddle::operators_detail
