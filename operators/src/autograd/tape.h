// The tape: what autograd keeps of arrays and of the operators that made them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <heddle/autograd.h>
#include <heddle/row_sparse.h>

#include "autograd/hooks.h"
#include "autograd/record.h"
#include "autograd/view_gradient.h"

namespace heddle::operators_detail {

struct Node;

// What autograd keeps of an array, shared by all copies of its handle. An array requires a gradient if it is a leaf or
// has a producer, which is the node that computed it; no array is both.
struct AutogradMeta final : GradMeta {
  // A handle made by save_for_backward() stands for another array while a Backward is recorded; this says for which.
  enum class StandsFor { itself, constant, input, output };

  StandsFor stands_for = StandsFor::itself;
  std::shared_ptr<AutogradMeta> original;  // of StandsFor::input
  bool leaf = false;
  bool drops_gradient = false;  // a leaf whose gradient nobody asks for
  Hooks hooks;                  // of a leaf
  bool view_of_leaf = false;
  std::mutex mutex;  // guards the gradient of a leaf, to which several threads may add: the four that follow
  NDArray grad;
  bool grad_owned =
      true;  // nothing else refers to its memory, and it is not on the tape: more is added in place
  RowSparse row_sparse_grad;  // at most one of the two gradients is defined
  NDArray lent_memory;        // for the next gradient, see lend_gradient_memory()
  std::shared_ptr<Node> producer;

  bool needs_gradient() const { return leaf || producer; }

  // A leaf may get new values, through views of it too. A node that saved the old ones is found by the storage's
  // version.
  void check_target(const char* op) const override { check(op, producer && !view_of_leaf); }
  void check_source(const char* op) const override { check(op, needs_gradient()); }

  void record_elements(const char* op, NDArray& y, const NDArray& x) const override {
    operators_detail::record_elements(op, y, x);
  }
  void record_permuted(const char* op, NDArray& y, const NDArray& x, const Dims& axes) const override {
    operators_detail::record_permuted(op, y, x, axes);
  }
  void record_broadcast(const char* op, NDArray& y, const NDArray& x) const override {
    operators_detail::record_broadcast(op, y, x);
  }
  void record_slice(const char* op, NDArray& y, const NDArray& x, int axis, Slice range) const override {
    operators_detail::record_slice(op, y, x, axis, range);
  }
  void record_view(const char* op, NDArray& y, const NDArray& x) const override {
    operators_detail::record_view(op, y, x);
  }

 private:
  static void check(const char* op, bool tracked);
};

struct Input {
  std::shared_ptr<AutogradMeta> meta;  // null: needs no gradient
  Shape shape;
  DType dtype;
  Device device;
  Engine* engine;
};
inline Input input_of(const NDArray& array, std::shared_ptr<AutogradMeta> meta) {
  return {std::move(meta), array.shape(), array.dtype(), array.device(), &array.engine()};
}

struct Saved {
  std::shared_ptr<Storage> storage;
  std::uint64_t version;
};

// One recorded operator. Sequence numbers grow: the node that computed an array has a smaller one than those that use
// it.
struct Node : std::enable_shared_from_this<Node> {
  const char* name;
  Where where;  // of the operator's call
  std::uint64_t sequence;
  std::vector<Input> inputs;
  std::vector<Saved> saved;
  Backward backward;
  AddGradient add;         // instead of backward
  PartOf part;             // with add
  RowSparseBackward rows;  // instead of backward
  Hooks hooks;             // of the output
  // False if it saved an array without save_for_backward(): its gradient then does not depend on that array, for the tape.
  bool saved_on_tape = true;
  bool keeps_no_gradient = false;  // of record_op()
  bool freed = false;
  int running = 0;  // passes that are in it: what they run is not destroyed before they leave

  ~Node();
};

// What the handle's array is on the tape; null if it is not on it.
std::shared_ptr<AutogradMeta> meta_of(const NDArray& array);
// requires_grad(); an undefined array needs none.
bool on_tape(const NDArray& array);
void free_node(Node& node);

// Throws Error that names `op`, for an undefined array.
void check_defined(const char* op, const NDArray& array);

}  // namespace heddle::operators_detail
