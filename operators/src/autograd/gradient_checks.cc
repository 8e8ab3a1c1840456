#include "autograd/gradient_checks.h"

#include <memory>
#include <string>
#include <utility>

#include <heddle/array_creation.h>
#include <heddle/array_error.h>
#include <heddle/autograd.h>
#include <heddle/autograd/find_nan.h>
#include <heddle/elementwise_math.h>
#include <heddle/error.h>
#include <heddle/statistics.h>

#include "autograd/leaf.h"
#include "autograd/record.h"
#include "autograd/running.h"

namespace heddle {

namespace operators_detail {
namespace {

thread_local bool finds_nan = false;

std::string described(DType dtype, const Shape& shape, Device device) {
  return name_of(dtype) + shape.to_string() + " on " + device.to_string();
}

template <class Gradient> void check_fits(const Node& node, const Input& input, const Gradient& gradient) {
  if (gradient.shape() != input.shape || gradient.dtype() != input.dtype ||
      gradient.device() != input.device) {
    throw Error(std::string(node.name) + ": its gradient is " +
                described(gradient.dtype(), gradient.shape(), gradient.device()) + " where the input is " +
                described(input.dtype, input.shape, input.device));
  }
  if (&gradient.engine() != input.engine)
    throw Error(std::string(node.name) + ": its gradient belongs to another engine than the input");
}

}  // namespace

void check_saved(const Node& node) {
  for (const Saved& saved : node.saved) {
    if (saved.storage->version() != saved.version) {
      throw Error(std::string(node.name) +
                  ": an array saved for its gradient was changed in place after it was recorded");
    }
  }
}

[[noreturn]] void refuse_freed(const char* call, const Node& node, const std::string& by) {
  throw Error(std::string(call) + ": the tape of " + node.name + " was freed by " + by +
              "; give that one keep_tape = true");
}

void check_ready(const char* call, const Node& node, bool recorded) {
  if (node.freed) refuse_freed(call, node, "an earlier backward() or grad()");
  check_saved(node);
  if (recorded && !node.saved_on_tape) refuse_second_gradient(node.name);
}

void check_gradient(const Node& node, const Input& input, const NDArray& gradient) {
  check_fits(node, input, gradient);
}

void check_gradient(const Node& node, const Input& input, const RowSparse& gradient) {
  check_fits(node, input, gradient);
}

void check_count(const Node& node, std::size_t gradients) {
  if (gradients == node.inputs.size()) return;
  throw Error(std::string(node.name) + ": " + std::to_string(gradients) + " gradients for " +
              std::to_string(node.inputs.size()) + " inputs");
}

void check_nan(const Node& node, std::size_t input, const NDArray& gradient) {
  const GradMode off(false);
  if (!finds_nan || !any(isnan(gradient)).item<bool>()) return;
  throw Error(std::string(node.name) + ": its gradient for input " + std::to_string(input) +
              " has NaN, the first one of this pass; called at " + node.where.file_name() + ":" +
              std::to_string(node.where.line()));
}

void check_hooked(const char* name, const NDArray& changed, const NDArray& gradient) {
  if (changed.shape() != gradient.shape() || changed.dtype() != gradient.dtype() ||
      changed.device() != gradient.device()) {
    throw Error(std::string("on_gradient: the hook of ") + name + " returned " +
                described(changed.dtype(), changed.shape(), changed.device()) + " for a gradient " +
                described(gradient.dtype(), gradient.shape(), gradient.device()));
  }
  if (&changed.engine() != &gradient.engine())
    throw Error(std::string("on_gradient: the hook of ") + name + " returned an array of another engine");
}

NDArray checked_seed(const char* op, const NDArray& root, const NDArray& seed, bool create_graph) {
  if (!root.defined()) ndarray_detail::refuse_undefined(op);
  if (!on_tape(root)) {
    throw InvalidArgument(
        std::string(op) +
        ": root was not computed from an array that requires a gradient; call set_requires_grad on x before "
        "it is computed from x, outside of NoGrad");
  }
  if (!seed.defined() && root.size() != 1) {
    throw InvalidArgument(std::string(op) + ": root has shape " + root.shape().to_string() +
                          "; give a seed of that shape or a root with one element");
  }
  if (seed.defined() && (seed.shape() != root.shape() || seed.dtype() != root.dtype())) {
    throw InvalidArgument(std::string(op) + ": seed is " + name_of(seed.dtype()) + seed.shape().to_string() +
                          " where root is " + name_of(root.dtype()) + root.shape().to_string());
  }
  if (seed.defined() && (seed.device() != root.device() || &seed.engine() != &root.engine())) {
    throw InvalidArgument(std::string(op) + ": seed is on " + seed.device().to_string() +
                          " where root is on " + root.device().to_string() +
                          (seed.device() == root.device() ? ", of another engine" : ""));
  }
  if (create_graph && seed.defined() && on_tape(seed)) return seed;
  NDArray result = seed.defined() ? seed.detach() : full(root.shape(), 1, root.dtype(), root.device());
  if (create_graph) {
    auto meta = std::make_shared<AutogradMeta>();
    meta->leaf = meta->drops_gradient = true;
    result.set_grad_meta(std::move(meta));
  }
  return result;
}

}  // namespace operators_detail

FindNaN::FindNaN() : previous_(std::exchange(operators_detail::finds_nan, true)) {}
FindNaN::~FindNaN() { operators_detail::finds_nan = previous_; }
bool finds_nan_here() { return operators_detail::finds_nan; }

}  // namespace heddle
