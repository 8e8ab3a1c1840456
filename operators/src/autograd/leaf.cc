// Public functions that say whether an array needs a gradient, return the gradient, and lend memory for it.
#include "autograd/leaf.h"

#include <mutex>
#include <string>
#include <utility>

#include <heddle/autograd.h>
#include <heddle/elementwise.h>
#include <heddle/error.h>
#include <heddle/row_sparse.h>

#include "autograd/running.h"
#include "autograd/tape.h"

namespace heddle {

using namespace operators_detail;

void set_requires_grad(NDArray& array, bool on) {
  check_defined("set_requires_grad", array);
  if (on && !is_floating(array.dtype())) {
    throw InvalidArgument(std::string("set_requires_grad: dtype ") + name_of(array.dtype()) +
                          "; only floating arrays have gradients");
  }
  std::shared_ptr<AutogradMeta> meta = meta_of(array);
  if (meta && meta->producer) {
    if (on) return;
    throw InvalidArgument("set_requires_grad: the array was computed from others; detach() it instead");
  }
  if (!meta) meta = std::make_shared<AutogradMeta>();
  meta->leaf = on;
  array.set_grad_meta(std::move(meta));
}

bool requires_grad(const NDArray& array) {
  check_defined("requires_grad", array);
  return on_tape(array);
}

bool is_leaf(const NDArray& array) {
  check_defined("is_leaf", array);
  const std::shared_ptr<AutogradMeta> meta = meta_of(array);
  return meta && meta->leaf;
}

NDArray grad(const NDArray& array) {
  check_defined("grad", array);
  const std::shared_ptr<AutogradMeta> meta = meta_of(array);
  if (!meta) return {};
  const std::lock_guard lock(meta->mutex);
  return meta->grad;
}

RowSparse row_sparse_grad(const NDArray& array) {
  check_defined("row_sparse_grad", array);
  const std::shared_ptr<AutogradMeta> meta = meta_of(array);
  if (!meta) return {};
  const std::lock_guard lock(meta->mutex);
  return meta->row_sparse_grad;
}

void clear_grad(const NDArray& array) {
  check_defined("clear_grad", array);
  const std::shared_ptr<AutogradMeta> meta = meta_of(array);
  if (!meta) return;
  NDArray dense;  // destroyed after the lock is released: the arrays may hold the last references on a tape
  RowSparse sparse;
  const std::lock_guard lock(meta->mutex);
  std::swap(dense, meta->grad);
  std::swap(sparse, meta->row_sparse_grad);
}

void lend_gradient_memory(const NDArray& leaf, const NDArray& memory) {
  check_defined("lend_gradient_memory", leaf);
  const std::shared_ptr<AutogradMeta> meta = meta_of(leaf);
  if (!meta || !meta->leaf)
    throw InvalidArgument("lend_gradient_memory: the array is no leaf; set_requires_grad comes first");
  if (memory.defined()) {
    const bool alike = memory.shape() == leaf.shape() && memory.dtype() == leaf.dtype() &&
                       memory.device() == leaf.device() && &memory.engine() == &leaf.engine();
    const bool own = memory.covers_storage() && memory.storage() != leaf.storage();
    if (!alike || !own || !memory.is_contiguous()) {
      throw InvalidArgument("lend_gradient_memory: got " + std::string(name_of(memory.dtype())) +
                            memory.shape().to_string() + " on " + memory.device().to_string() +
                            "; wanted a contiguous array with a storage of its own, else like the leaf, " +
                            name_of(leaf.dtype()) + leaf.shape().to_string() + " on " +
                            leaf.device().to_string());
    }
  }
  const std::lock_guard lock(meta->mutex);
  meta->lent_memory = memory.defined() ? memory.detach() : NDArray();
}

void on_gradient(const NDArray& array, GradientHook hook) {
  check_defined("on_gradient", array);
  if (!hook) throw InvalidArgument("on_gradient: the hook is empty");
  const std::shared_ptr<AutogradMeta> meta = meta_of(array);
  if (!meta || !meta->needs_gradient())
    throw InvalidArgument(
        "on_gradient: the array requires no gradient; call set_requires_grad on x before it is computed from "
        "x");
  (meta->producer ? meta->producer->hooks : meta->hooks).add(std::move(hook));
}

namespace {

// Adds to the dense gradient of a leaf, whose mutex is locked: in place if nothing else refers to the memory,
// else by an operator, so that a gradient on a tape stays on it and no other array changes. `add` adds in
// place to its argument.
template <class Add> void add_in_leaf(AutogradMeta& leaf, Add add) {
  if (leaf.grad_owned) return add(leaf.grad);
  const GradMode on(true);
  NDArray more = zeros(leaf.grad.shape(), leaf.grad.dtype(), leaf.grad.device());
  add(more);
  leaf.grad = leaf.grad + more;
  leaf.grad_owned = !on_tape(leaf.grad);
}

}  // namespace

void operators_detail::add_sparse_part(AutogradMeta& leaf) {
  const RowSparse part = std::exchange(leaf.row_sparse_grad, RowSparse());
  if (part.defined()) add_in_leaf(leaf, [&](const NDArray& to) { add_rows(to, part); });
}

void operators_detail::accumulate_in_leaf(AutogradMeta& leaf, const NDArray& gradient, bool shared) {
  const std::lock_guard lock(leaf.mutex);
  if (leaf.grad.defined()) {
    add_in_leaf(leaf, [&](NDArray& to) { to += gradient; });
  } else {
    const bool own = !shared && gradient.is_contiguous() && gradient.covers_storage();
    leaf.grad = own ? gradient.detach() : gradient.detach().copy();
    leaf.grad_owned = true;
  }
  add_sparse_part(leaf);
}

void operators_detail::give_recorded(AutogradMeta& leaf, const NDArray& gradient) {
  const std::lock_guard lock(leaf.mutex);
  NDArray whole = gradient.is_contiguous() ? gradient : gradient.contiguous();
  if (!on_tape(whole)) whole = whole.copy();  // the gradient is a hook's result, which the hook may keep
  leaf.grad = leaf.grad.defined() ? leaf.grad + whole : whole;
  leaf.grad_owned = false;
  add_sparse_part(leaf);
}

void operators_detail::accumulate_rows_in_leaf(AutogradMeta& leaf, const RowSparse& gradient) {
  const std::lock_guard lock(leaf.mutex);
  if (leaf.grad.defined()) return add_in_leaf(leaf, [&](const NDArray& to) { add_rows(to, gradient); });
  const RowSparse earlier = leaf.row_sparse_grad;
  leaf.row_sparse_grad = earlier.defined() ? sum({earlier, gradient}) : gradient;
}

}  // namespace heddle
