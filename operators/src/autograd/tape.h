// The tape: autograd's data of arrays and of the operators that made them.
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

// Autograd's data of an array, shared by all copies of its handle. An array requires a gradient if it is a
// leaf or has a producer, the node that computed it; no array is both.
struct AutogradMeta final : GradMeta {
  // The array for which a handle made by save_for_backward() stands while a Backward is recorded.
  enum class StandsFor { itself, constant, input, output };

  StandsFor stands_for = StandsFor::itself;
  std::shared_ptr<AutogradMeta> original;  // set for StandsFor::input: the data of the saved array itself
  bool leaf = false;
  bool passing = false;         // true for a leaf that make_passing_leaf() made
  bool drops_gradient = false;  // true for a leaf whose gradient nobody requests
  Hooks hooks;                  // hooks of a leaf
  bool view_of_leaf = false;
  std::mutex mutex;  // guards grad, grad_owned, row_sparse_grad and lent_memory
  NDArray grad;
  // True if nothing else refers to the memory of grad, and grad is not on the tape: then gradients are added
  // to grad in place.
  bool grad_owned = true;
  RowSparse row_sparse_grad;  // at most one of grad and row_sparse_grad is defined
  NDArray lent_memory;        // memory for the next gradient, see lend_gradient_memory()
  std::shared_ptr<Node> producer;

  bool needs_gradient() const { return leaf || producer; }

  // A leaf may be overwritten, also through views. A node that saved the old values detects it by the
  // storage's version.
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
  std::shared_ptr<AutogradMeta> meta;  // null: the input needs no gradient
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

// One recorded operator. Sequence numbers grow: the node that computed an array has a smaller one than the
// nodes that use the array.
struct Node : std::enable_shared_from_this<Node> {
  const char* name;
  Where where;  // line of the operator's call
  std::uint64_t sequence;
  std::vector<Input> inputs;
  std::vector<Saved> saved;
  Backward backward;
  AddGradient add;         // gradient function for a part of the input; replaces `backward`
  PartOf part;             // the operator itself, for the gradient of `add`; set only with `add`
  RowSparseBackward rows;  // gradient function for row-sparse gradients; replaces `backward`
  Hooks hooks;             // hooks of the output array
  // False if the node saved an array without save_for_backward(): a recorded gradient of the node does not
  // depend on that array then.
  bool saved_on_tape = true;
  bool keeps_no_gradient = false;  // true: the Backward keeps no array that it returns (record_op)
  bool freed = false;
  int running = 0;  // number of passes that run the node; its contents live until all have left it

  ~Node();
};

// The tape's data of the handle's array; null if the array is not on the tape.
std::shared_ptr<AutogradMeta> meta_of(const NDArray& array);
// As requires_grad(); false for an undefined array.
bool on_tape(const NDArray& array);
void free_node(Node& node);

// Throws Error that names `op`, for an undefined array.
void check_defined(const char* op, const NDArray& array);

}  // namespace heddle::operators_detail
