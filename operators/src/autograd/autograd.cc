#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <utility>

#include <heddle/array_op.h>
#include <heddle/autograd.h>
#include <heddle/call_site.h>
#include <heddle/elementwise.h>
#include <heddle/error.h>
#include <heddle/row_sparse.h>

#include "autograd/operator.h"
#include "autograd/view_gradient.h"

namespace heddle {

namespace {

thread_local bool grad_mode = true;
std::atomic<std::uint64_t> next_sequence{0};

struct Node;

// What autograd keeps of an array, shared by all copies of its handle. An array requires a gradient if it is a leaf or
// has a producer, which is the node that computed it; no array is both.
struct AutogradMeta final : GradMeta {
  bool leaf = false;
  bool view_of_leaf = false;
  NDArray grad;
  RowSparse row_sparse_grad;  // at most one of the two is defined
  NDArray lent_memory;        // for the next gradient, see lend_gradient_memory()
  std::shared_ptr<Node> producer;

  // A leaf may get new values, through views of it too. A node that saved the old ones is found by the storage's
  // version.
  void check_target(const char* op) const override { check(op, producer && !view_of_leaf); }
  void check_source(const char* op) const override { check(op, leaf || producer); }

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
  static void check(const char* op, bool tracked) {
    if (!tracked || !grad_mode) return;
    throw Error(std::string(op) +
                ": an array requires a gradient, and the tape does not follow changes in place; make a new "
                "array, detach() it or use NoGrad");
  }
};

struct Input {
  std::shared_ptr<AutogradMeta> meta;  // null: needs no gradient
  Shape shape;
  DType dtype;
};

struct Saved {
  std::shared_ptr<Storage> storage;
  std::uint64_t version;
};

// One recorded operator. Sequence numbers grow: the node that computed an array has a smaller one than those that use
// it.
struct Node {
  const char* name;
  Where where;  // of the operator's call
  std::uint64_t sequence;
  Shape shape;  // of the output
  DType dtype;
  std::vector<Input> inputs;
  std::vector<Saved> saved;
  Backward backward;
  AddGradient add;         // instead of backward
  RowSparseBackward rows;  // instead of backward
  bool freed = false;

  ~Node();
};

// What a node holds, to be destroyed outside the node's destructor.
struct NodeContents {
  std::vector<Input> inputs;
  std::vector<Saved> saved;
  Backward backward;
  AddGradient add;
  RowSparseBackward rows;
};

// The destructor of a node may destroy the nodes that computed its inputs, and so on: a stack frame a node. So contents
// are not destroyed at once but put on a list, which the outermost call of release_deferred() on the thread empties. A
// plain pointer, because thread-local objects are destroyed before some arrays are.
thread_local std::vector<NodeContents>* deferred_releases = nullptr;

void release_deferred(NodeContents contents) {
  if (deferred_releases) {
    deferred_releases->push_back(std::move(contents));
    return;
  }
  std::vector<NodeContents> list;
  deferred_releases = &list;
  list.push_back(std::move(contents));
  while (!list.empty()) {
    NodeContents next = std::move(list.back());
    list.pop_back();
  }
  deferred_releases = nullptr;
}

Node::~Node() {
  release_deferred(
      {std::move(inputs), std::move(saved), std::move(backward), std::move(add), std::move(rows)});
}

void free_node(Node& node) {
  node.freed = true;
  release_deferred({std::exchange(node.inputs, {}), std::exchange(node.saved, {}),
                    std::exchange(node.backward, nullptr), std::exchange(node.add, nullptr),
                    std::exchange(node.rows, nullptr)});
}

// Only record() and set_requires_grad() put arrays on the tape.
std::shared_ptr<AutogradMeta> meta_of(const NDArray& array) {
  return std::static_pointer_cast<AutogradMeta>(array.grad_meta());
}

bool needs_gradient(const AutogradMeta* meta) { return meta && (meta->leaf || meta->producer); }

// requires_grad(); an undefined array needs none.
bool on_tape(const NDArray& array) {
  return needs_gradient(static_cast<const AutogradMeta*>(array.grad_meta().get()));
}

void check_defined(const char* name, const NDArray& array) {
  if (!array.defined()) ndarray_detail::refuse_undefined(name);
}

thread_local const Node* current_node = nullptr;  // whose Backward runs on this thread

// An array for the input's gradient. Lent memory is only for the first gradient of a leaf: later ones are added to
// that.
NDArray gradient_for(const Input& input, const NDArray& like) {
  AutogradMeta* leaf = input.meta && input.meta->leaf ? input.meta.get() : nullptr;
  const bool lent = leaf && leaf->lent_memory.defined() && !leaf->grad.defined() &&
                    leaf->lent_memory.device() == like.device() &&
                    &leaf->lent_memory.engine() == &like.engine();
  return lent ? std::exchange(leaf->lent_memory, NDArray())
              : operators_detail::make_result(like, input.shape, input.dtype);
}

// A node whose Backward has not run yet, and the gradient of its output accumulated so far.
struct PendingNode {
  std::shared_ptr<Node> node;
  NDArray gradient;
  bool owned = false;  // nothing else refers to gradient's memory: more can be added in place
};

// By falling sequence number: every node comes after all nodes that use its output.
using PendingNodes = std::map<std::uint64_t, PendingNode, std::greater<>>;

void check_ready(const Node& node) {
  if (node.freed) {
    throw Error(std::string("backward: the tape of ") + node.name +
                " was freed by an earlier backward(); give that one keep_tape = true");
  }
  for (const Saved& saved : node.saved) {
    if (saved.storage->version() != saved.version) {
      throw Error(std::string(node.name) +
                  ": an array saved for its gradient was changed in place after it was recorded");
    }
  }
}

bool is_saved(const PendingNodes& nodes, const std::shared_ptr<Storage>& storage) {
  for (const auto& [sequence, pending] : nodes) {
    for (const Saved& saved : pending.node->saved) {
      if (saved.storage == storage) return true;
    }
  }
  return false;
}

// All nodes that root was computed from. They are checked here, before the first gradient is pushed, so that an error
// changes nothing. Lent memory that the backward pass reads is not used for its gradients.
PendingNodes find_nodes(const std::shared_ptr<Node>& root, const NDArray& seed) {
  PendingNodes nodes;
  std::vector<AutogradMeta*> lent;
  std::vector<std::shared_ptr<Node>> stack{root};
  while (!stack.empty()) {
    const std::shared_ptr<Node> node = std::move(stack.back());
    stack.pop_back();
    if (!nodes.try_emplace(node->sequence, PendingNode{node, {}, false}).second) continue;
    check_ready(*node);
    for (const Input& input : node->inputs) {
      if (input.meta && input.meta->producer) stack.push_back(input.meta->producer);
      if (input.meta && input.meta->lent_memory.defined()) lent.push_back(input.meta.get());
    }
  }
  for (AutogradMeta* leaf : lent) {
    const std::shared_ptr<Storage>& storage = leaf->lent_memory.storage();
    if (storage == seed.storage() || is_saved(nodes, storage)) leaf->lent_memory = NDArray();
  }
  return nodes;
}

// The gradient of a leaf was row-sparse and is dense from now on.
void add_sparse_part(AutogradMeta& leaf) {
  const RowSparse part = std::exchange(leaf.row_sparse_grad, RowSparse());
  if (part.defined()) add_rows(leaf.grad, part);
}

// A leaf keeps its gradient and adds later ones in place: so memory that something else refers to (`shared`) is copied.
void accumulate_in_leaf(AutogradMeta& leaf, const NDArray& gradient, bool shared) {
  if (leaf.grad.defined()) {
    leaf.grad += gradient;
  } else if (shared || !gradient.is_contiguous() || !gradient.covers_storage()) {
    leaf.grad = gradient.detach().copy();
  } else {
    leaf.grad = gradient.detach();
  }
  add_sparse_part(leaf);
}

void accumulate_rows_in_leaf(AutogradMeta& leaf, const RowSparse& gradient) {
  if (leaf.grad.defined()) return add_rows(leaf.grad, gradient);
  const RowSparse earlier = leaf.row_sparse_grad;
  leaf.row_sparse_grad = earlier.defined() ? sum({earlier, gradient}) : gradient;
}

void accumulate(PendingNode& pending, const NDArray& gradient) {
  if (!pending.gradient.defined()) {
    pending.gradient = gradient;
  } else if (pending.owned) {
    pending.gradient += gradient;
  } else {
    pending.gradient = pending.gradient + gradient;
    pending.owned = true;
  }
}

// True if memory of gradients[index] is also that of grad_output, of a saved array or of another input's gradient.
bool is_shared(const Node& node, const NDArray& grad_output, const std::vector<NDArray>& gradients,
               std::size_t index) {
  const std::shared_ptr<Storage>& storage = gradients[index].storage();
  if (grad_output.storage() == storage) return true;
  for (const Saved& saved : node.saved) {
    if (saved.storage == storage) return true;
  }
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (i != index && gradients[i].defined() && gradients[i].storage() == storage) return true;
  }
  return false;
}

// gradient: an NDArray or a RowSparse.
template <class Gradient>
void check_gradient(const Node& node, const Input& input, const Gradient& gradient) {
  if (gradient.shape() == input.shape && gradient.dtype() == input.dtype) return;
  throw Error(std::string(node.name) + ": its gradient is " + name_of(gradient.dtype()) +
              gradient.shape().to_string() + " where the input is " + name_of(input.dtype) +
              input.shape.to_string());
}

void accumulate_in_inputs(PendingNodes& nodes, const Node& node, const NDArray& grad_output,
                          const std::vector<NDArray>& gradients) {
  if (gradients.size() != node.inputs.size()) {
    throw Error(std::string(node.name) + ": " + std::to_string(gradients.size()) + " gradients for " +
                std::to_string(node.inputs.size()) + " inputs");
  }
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Input& input = node.inputs[i];
    if (!input.meta || !gradients[i].defined()) continue;
    check_gradient(node, input, gradients[i]);
    if (input.meta->producer) {
      accumulate(nodes.at(input.meta->producer->sequence), gradients[i]);
    } else if (input.meta->leaf) {
      accumulate_in_leaf(*input.meta, gradients[i], is_shared(node, grad_output, gradients, i));
    }
  }
}

// The array to which a part of the gradient of `input` is added. There is one for all parts of a backward pass, and for
// a leaf one for all passes.
NDArray whole_gradient(PendingNodes& nodes, const Input& input, const NDArray& like) {
  const bool is_leaf = !input.meta->producer;
  PendingNode* pending = is_leaf ? nullptr : &nodes.at(input.meta->producer->sequence);
  NDArray& gradient = is_leaf ? input.meta->grad : pending->gradient;
  if (!gradient.defined()) {
    gradient = gradient_for(input, like);
    gradient.fill(0);
    if (is_leaf) add_sparse_part(*input.meta);
  } else if (!is_leaf && !pending->owned) {
    gradient = gradient.copy();
  }
  if (!is_leaf) pending->owned = true;
  return gradient;
}

// What node.backward or node.rows returns.
template <class Function>
auto gradients_of(const Node& node, const Function& function, const NDArray& grad_output) {
  const CallSite site = CallSite::on_behalf_of(node.where);
  const Node* const outer = std::exchange(current_node, &node);
  struct Restore {
    const Node* const outer;
    ~Restore() { current_node = outer; }
  } const restore{outer};
  return function(grad_output);
}

void run_rows(const Node& node, const NDArray& grad_output) {
  const Input& input = node.inputs.front();
  if (!input.meta || !input.meta->leaf) return;
  const RowSparse gradient = gradients_of(node, node.rows, grad_output);
  check_gradient(node, input, gradient);
  accumulate_rows_in_leaf(*input.meta, gradient);
}

void run_backward(PendingNodes& nodes, const Node& node, const NDArray& grad_output) {
  if (node.rows) return run_rows(node, grad_output);
  if (!node.add) {
    return accumulate_in_inputs(nodes, node, grad_output, gradients_of(node, node.backward, grad_output));
  }
  const Input& input = node.inputs.front();
  if (!needs_gradient(input.meta.get())) return;
  const NDArray whole = whole_gradient(nodes, input, grad_output);
  const CallSite site = CallSite::on_behalf_of(node.where);
  node.add(grad_output, whole);
}

NDArray checked_seed(const NDArray& root, const NDArray& seed) {
  if (!seed.defined()) {
    if (root.size() == 1) return full(root.shape(), 1, root.dtype(), root.device());
    throw InvalidArgument("backward: root has shape " + root.shape().to_string() +
                          "; give a seed of that shape or a root with one element");
  }
  if (seed.shape() != root.shape() || seed.dtype() != root.dtype()) {
    throw InvalidArgument(std::string("backward: seed is ") + name_of(seed.dtype()) +
                          seed.shape().to_string() + " where root is " + name_of(root.dtype()) +
                          root.shape().to_string());
  }
  return seed.detach();
}

}  // namespace

NoGrad::NoGrad() : previous_(std::exchange(grad_mode, false)) {}
NoGrad::~NoGrad() { grad_mode = previous_; }

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

NDArray grad(const NDArray& array) {
  check_defined("grad", array);
  return array.grad_meta() ? meta_of(array)->grad : NDArray();
}

RowSparse row_sparse_grad(const NDArray& array) {
  check_defined("row_sparse_grad", array);
  return array.grad_meta() ? meta_of(array)->row_sparse_grad : RowSparse();
}

void clear_grad(const NDArray& array) {
  check_defined("clear_grad", array);
  if (!array.grad_meta()) return;
  meta_of(array)->grad = NDArray();
  meta_of(array)->row_sparse_grad = RowSparse();
}

void lend_gradient_memory(const NDArray& leaf, const NDArray& memory) {
  check_defined("lend_gradient_memory", leaf);
  const std::shared_ptr<AutogradMeta> meta = leaf.grad_meta() ? meta_of(leaf) : nullptr;
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
  meta->lent_memory = memory.defined() ? memory.detach() : NDArray();
}

NDArray make_gradient(std::size_t index, const NDArray& like) {
  check_defined("make_gradient", like);
  if (!current_node) throw Error("make_gradient: no Backward runs on this thread");
  return gradient_for(current_node->inputs.at(index), like);
}

bool recording(std::initializer_list<const NDArray*> inputs) {
  return grad_mode && std::any_of(inputs.begin(), inputs.end(), [](auto* input) { return on_tape(*input); });
}

namespace {

bool is_view_of_leaf(const NDArray& output, const NDArray& input) {
  const std::shared_ptr<AutogradMeta> meta = meta_of(input);
  return meta && (meta->leaf || meta->view_of_leaf) && output.storage() == input.storage();
}

// Puts a node on the tape. The caller sets how it computes gradients: `backward` or `add`.
Node& record_node(const char* name, NDArray& output, const std::vector<NDArray>& inputs,
                  const std::vector<NDArray>& saved, Where where) {
  check_defined("record", output);
  for (const NDArray& array : inputs) check_defined("record", array);
  for (const NDArray& array : saved) check_defined("record", array);
  auto node = std::make_shared<Node>();
  node->name = name;
  node->where = CallSite::current(where);
  node->sequence = next_sequence.fetch_add(1, std::memory_order_relaxed);
  node->inputs.reserve(inputs.size());
  for (const NDArray& input : inputs) {
    node->inputs.push_back({on_tape(input) ? meta_of(input) : nullptr, input.shape(), input.dtype()});
  }
  for (const NDArray& array : saved) node->saved.push_back({array.storage(), array.storage()->version()});
  Node& result = *node;
  auto meta = std::make_shared<AutogradMeta>();
  meta->producer = std::move(node);
  meta->view_of_leaf = inputs.size() == 1 && is_view_of_leaf(output, inputs.front());
  output.set_grad_meta(std::move(meta));
  return result;
}

}  // namespace

void record(const char* name, NDArray& output, std::vector<NDArray> inputs, std::vector<NDArray> saved,
            Backward backward, Where where) {
  record_node(name, output, inputs, saved, where).backward = std::move(backward);
}

void record_part(const char* name, NDArray& output, const NDArray& input, std::vector<NDArray> saved,
                 AddGradient add, Where where) {
  check_defined("record_part", output);
  check_defined("record_part", input);
  record_node(name, output, {input}, saved, where).add = std::move(add);
}

void record_rows(const char* name, NDArray& output, const NDArray& input, std::vector<NDArray> saved,
                 RowSparseBackward backward, Where where) {
  const CallSite site(where);
  check_defined("record_rows", output);
  check_defined("record_rows", input);
  if (!input.grad_meta() || !meta_of(input)->leaf) {
    throw InvalidArgument(std::string(name) +
                          ": only a leaf has a row-sparse gradient; this array was computed from others");
  }
  record_node(name, output, {input}, saved, where).rows = std::move(backward);
}

void backward(const NDArray& root, const NDArray& seed, bool keep_tape, Where where) {
  const CallSite site(where);
  check_defined("backward", root);
  if (!on_tape(root)) {
    throw InvalidArgument("backward: root was not computed from an array that requires a gradient");
  }
  NoGrad no_grad;
  EngineScope scope(root.engine());
  const NDArray first = checked_seed(root, seed);
  const std::shared_ptr<AutogradMeta> meta = meta_of(root);
  if (!meta->producer) return accumulate_in_leaf(*meta, first, seed.defined());
  PendingNodes nodes = find_nodes(meta->producer, first);
  nodes.begin()->second.gradient = first;
  while (!nodes.empty()) {
    const PendingNode next = std::move(nodes.begin()->second);
    if (next.gradient.defined()) run_backward(nodes, *next.node, next.gradient);
    if (!keep_tape) free_node(*next.node);
    nodes.erase(nodes.begin());
  }
}

}  // namespace heddle
