#include "autograd/tape.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include <heddle/array_use.h>
#include <heddle/call_site.h>
#include <heddle/error.h>

#include "autograd/record.h"
#include "autograd/running.h"
#include "core/operator.h"

namespace heddle {

namespace operators_detail {

namespace {

thread_local bool grad_mode = true;
thread_local const Node* current_node = nullptr;  // the node whose Backward runs on this thread
thread_local BackwardMode backward_mode{false, false, nullptr};
thread_local MadeGradients* made_gradients = nullptr;
std::atomic<std::uint64_t> next_sequence{0};
constinit thread_local OuterUse* outer_use = nullptr;

// The contents of a node, to be destroyed outside the node's destructor.
struct NodeContents {
  std::vector<Input> inputs;
  std::vector<Saved> saved;
  Backward backward;
  AddGradient add;
  PartOf part;
  RowSparseBackward rows;
  Hooks hooks;
};

// The destructor of a node may destroy the nodes that computed its inputs, and so on: one stack frame per
// node. So contents are not destroyed at once but put on a list, which the outermost call of
// release_deferred() on the thread empties. A raw pointer, because thread-local objects are destroyed before
// some arrays are.
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

void release(Node& node) {
  release_deferred({std::exchange(node.inputs, {}), std::exchange(node.saved, {}),
                    std::exchange(node.backward, nullptr), std::exchange(node.add, nullptr),
                    std::exchange(node.part, nullptr), std::exchange(node.rows, nullptr),
                    std::move(node.hooks)});
}

// Only record(), set_requires_grad() and save_for_backward() put metas into arrays.
const std::shared_ptr<AutogradMeta> own_meta(const NDArray& array) {
  return std::static_pointer_cast<AutogradMeta>(array.grad_meta());
}

}  // namespace

Node::~Node() { release(*this); }

OuterUse::OuterUse()
    : first_(next_sequence.load(std::memory_order_relaxed)), outer_(std::exchange(outer_use, this)) {}
OuterUse::~OuterUse() { outer_use = outer_; }
OuterUse* OuterUse::current() noexcept { return outer_use; }

void free_node(Node& node) {
  node.freed = true;
  if (node.running == 0) release(node);
}

InNode::~InNode() {
  if (--node_.running == 0 && node_.freed) release(node_);
}

void AutogradMeta::check(const char* op, bool tracked) {
  if (!tracked || !grad_mode) return;
  throw InvalidArgument(
      std::string(op) +
      ": an array requires a gradient, and the tape does not follow changes in place; make a new "
      "array, detach() it or use NoGrad");
}

std::shared_ptr<AutogradMeta> meta_of(const NDArray& array) {
  std::shared_ptr<AutogradMeta> meta = own_meta(array);
  if (!meta || meta->stands_for == AutogradMeta::StandsFor::itself) return meta;
  if (!backward_mode.recorded || meta->stands_for == AutogradMeta::StandsFor::constant) return nullptr;
  if (meta->stands_for == AutogradMeta::StandsFor::input) return meta->original;
  // A node does not own its output, which may be destroyed, so that there is no cycle. Another meta with this
  // producer is equivalent.
  auto output = std::make_shared<AutogradMeta>();
  output->producer = const_cast<Node*>(current_node)->shared_from_this();
  return output;
}

bool on_tape(const NDArray& array) {
  const auto* meta = static_cast<const AutogradMeta*>(array.grad_meta().get());
  if (!meta) return false;
  switch (meta->stands_for) {
    case AutogradMeta::StandsFor::itself:
      return meta->needs_gradient();
    case AutogradMeta::StandsFor::input:
      return backward_mode.recorded && meta->original->needs_gradient();
    case AutogradMeta::StandsFor::output:
      return backward_mode.recorded;
    default:
      return false;
  }
}

void check_defined(const char* op, const NDArray& array) {
  if (!array.defined()) ndarray_detail::refuse_undefined(op);
}

RunsBackward::RunsBackward(const Node& node, BackwardMode mode)
    : outer_node_(std::exchange(current_node, &node)),
      outer_mode_(std::exchange(backward_mode, mode)),
      outer_made_(std::exchange(made_gradients, &made_)) {}

RunsBackward::~RunsBackward() {
  current_node = outer_node_;
  backward_mode = outer_mode_;
  made_gradients = outer_made_;
}

const Node* RunsBackward::node() { return current_node; }
MadeGradients& RunsBackward::made() { return *made_gradients; }
BackwardMode RunsBackward::mode() { return backward_mode; }

GradMode::GradMode(bool on) : previous_(std::exchange(grad_mode, on)) {}
GradMode::~GradMode() { grad_mode = previous_; }

bool differentiating_gradient() { return backward_mode.recorded; }

void make_passing_leaf(NDArray& array) {
  set_requires_grad(array);
  own_meta(array)->passing = true;
}

bool is_lasting_leaf(const NDArray& array) { return is_leaf(array) && !own_meta(array)->passing; }

}  // namespace operators_detail

using namespace operators_detail;

NoGrad::NoGrad() : previous_(std::exchange(grad_mode, false)) {}
NoGrad::~NoGrad() { grad_mode = previous_; }
bool NoGrad::active() { return !grad_mode; }

bool recording(std::initializer_list<const NDArray*> inputs) {
  return grad_mode && std::any_of(inputs.begin(), inputs.end(), [](auto* input) { return on_tape(*input); });
}

NDArray save_for_backward(const NDArray& array) {
  check_defined("save_for_backward", array);
  auto meta = std::make_shared<AutogradMeta>();
  meta->stands_for = AutogradMeta::StandsFor::constant;
  if (on_tape(array)) {
    meta->stands_for = AutogradMeta::StandsFor::input;
    meta->original = meta_of(array);
  }
  NDArray result = array.detach();
  result.set_grad_meta(std::move(meta));
  return result;
}

namespace {

bool is_view_of_leaf(const NDArray& output, const NDArray& input) {
  const std::shared_ptr<AutogradMeta> meta = meta_of(input);
  return meta && (meta->leaf || meta->view_of_leaf) && output.storage() == input.storage();
}

bool is_same(const NDArray& a, const NDArray& b) {
  return a.storage() == b.storage() && a.shape() == b.shape() && a.strides() == b.strides() &&
         a.offset() == b.offset();
}

// Whether the tape can follow results computed from the saved array. If it is the output, its handle is
// changed to stand for the output.
bool follows_saved(const NDArray& saved, const NDArray& output) {
  if (!is_floating(saved.dtype())) return true;
  const std::shared_ptr<AutogradMeta> meta = own_meta(saved);
  if (!meta || meta->stands_for == AutogradMeta::StandsFor::itself) return false;
  const bool constant = meta->stands_for == AutogradMeta::StandsFor::constant;
  if (constant && is_same(saved, output)) meta->stands_for = AutogradMeta::StandsFor::output;
  return true;
}

// Notes what a node of a recomputed function uses. Only this thread makes nodes of the function, so that older nodes have
// smaller numbers than its first.
void note_outer(OuterUse& outer, const char* name, const NDArray& input, const AutogradMeta& meta) {
  if (meta.leaf) return outer.add(input);
  if (meta.producer && meta.producer->sequence < outer.first())
    throw InvalidArgument(
        std::string("recompute: ") + name +
        " in the function uses an array that was computed outside of it and requires a gradient; "
        "make it an input of the function");
}

// Puts a node on the tape. The caller sets how the node computes gradients: `backward` or `add`.
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
  ArrayUse* const use = ArrayUse::current();
  for (const NDArray& input : inputs) {
    std::shared_ptr<AutogradMeta> input_meta = on_tape(input) ? meta_of(input) : nullptr;
    if (use && input_meta && input_meta->leaf) [[unlikely]]
      use->differentiates(input);
    if (OuterUse* const outer = OuterUse::current(); outer && input_meta) [[unlikely]]
      note_outer(*outer, name, input, *input_meta);
    node->inputs.push_back(input_of(input, std::move(input_meta)));
  }
  for (const NDArray& array : saved) {
    node->saved.push_back({array.storage(), array.storage()->version()});
    node->saved_on_tape = follows_saved(array, output) && node->saved_on_tape;
  }
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

void operators_detail::record_op(const char* name, NDArray& output, std::vector<NDArray> inputs,
                                 std::vector<NDArray> saved, Backward backward, Where where) {
  Node& node = record_node(name, output, inputs, saved, where);
  node.backward = std::move(backward);
  node.keeps_no_gradient = true;
}

void record_part(const char* name, NDArray& output, const NDArray& input, std::vector<NDArray> saved,
                 AddGradient add, PartOf part, Where where) {
  check_defined("record_part", output);
  check_defined("record_part", input);
  Node& node = record_node(name, output, {input}, saved, where);
  node.add = std::move(add);
  node.part = std::move(part);
}

void record_rows(const char* name, NDArray& output, const NDArray& input, std::vector<NDArray> saved,
                 RowSparseBackward backward, Where where) {
  const CallSite site(where);
  check_defined("record_rows", output);
  check_defined("record_rows", input);
  const std::shared_ptr<AutogradMeta> meta = meta_of(input);
  if (!meta || !meta->leaf) {
    throw InvalidArgument(std::string(name) +
                          ": only a leaf has a row-sparse gradient; this array was computed from others");
  }
  if (OuterUse::current())
    throw InvalidArgument(
        std::string(name) +
        ": its gradient is row-sparse, which recompute() cannot give; call it outside of the "
        "function, or without sparse gradients");
  record_node(name, output, {input}, saved, where).rows = std::move(backward);
}

}  // namespace heddle
