// The backward pass.
#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <heddle/array_op.h>
#include <heddle/array_use.h>
#include <heddle/autograd.h>
#include <heddle/call_site.h>
#include <heddle/elementwise.h>
#include <heddle/error.h>
#include <heddle/row_sparse.h>

#include "autograd/gradient_checks.h"
#include "autograd/leaf.h"
#include "autograd/record.h"
#include "autograd/running.h"
#include "autograd/tape.h"
#include "core/operator.h"

namespace heddle {

using namespace operators_detail;

namespace {

// The sum of the gradients computed so far.
struct Sum {
  NDArray gradient;
  bool owned = false;  // true: nothing else refers to the gradient's memory, so more can be added in place
};

// A node whose Backward has not run yet, and the gradient of its output.
struct PendingNode {
  std::shared_ptr<Node> node;
  Sum sum;
  bool wanted = true;  // whether the node leads to an array whose gradient is requested
};

// Ordered by descending sequence number: every node comes after all nodes that use its output.
using PendingNodes = std::map<std::uint64_t, PendingNode, std::greater<>>;

// Returns an array for the input's gradient. Lent memory is only for the first gradient of a leaf: later ones
// are added to that. Lent memory is not used for a leaf with hooks, which may keep the gradient.
NDArray gradient_for(const Input& input, const NDArray& like, bool lends) {
  if (lends && input.meta && input.meta->leaf) {
    AutogradMeta& leaf = *input.meta;
    const std::lock_guard lock(leaf.mutex);
    if (leaf.lent_memory.defined() && leaf.hooks.empty() && !leaf.grad.defined() &&
        leaf.lent_memory.device() == like.device() && &leaf.lent_memory.engine() == &like.engine())
      return std::exchange(leaf.lent_memory, NDArray());
  }
  return make_result(like, input.shape, input.dtype);
}

bool is_saved(const PendingNodes& nodes, const std::shared_ptr<Storage>& storage) {
  for (const auto& [sequence, pending] : nodes) {
    for (const Saved& saved : pending.node->saved) {
      if (saved.storage == storage) return true;
    }
  }
  return false;
}

// Whether memory of gradients[index] may also be that of grad_output, of a saved array, of another input's
// gradient or of an array that a user's operator keeps.
bool is_shared(const Node& node, const NDArray& grad_output, const std::vector<NDArray>& gradients,
               std::size_t index, const MadeGradients& made) {
  const std::shared_ptr<Storage>& storage = gradients[index].storage();
  if (!node.keeps_no_gradient && std::find(made.begin(), made.end(), storage) == made.end()) return true;
  if (grad_output.storage() == storage) return true;
  for (const Saved& saved : node.saved) {
    if (saved.storage == storage) return true;
  }
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (i != index && gradients[i].defined() && gradients[i].storage() == storage) return true;
  }
  return false;
}

// Returns the gradient in a handle that is valid after the Backward: the given one may stand for a saved
// array, which it does only while a Backward runs.
NDArray resolved(const NDArray& gradient) {
  if (!gradient.defined() || !gradient.grad_meta()) return gradient;
  NDArray result = gradient.detach();
  if (on_tape(gradient)) result.set_grad_meta(meta_of(gradient));
  return result;
}

// Replaces the gradient by the result of the hooks. A hook may keep its argument and its result.
void run_hooks(const char* name, const Hooks& hooks, Sum& sum) {
  for (const GradientHook* hook : hooks.all()) {
    sum.owned = false;
    const NDArray changed = (*hook)(sum.gradient);
    if (!changed.defined()) continue;
    check_hooked(name, changed, sum.gradient);
    sum.gradient = changed;
  }
}

struct PassOptions {
  bool keep_tape;
  bool recorded;           // whether gradients go on the tape
  bool captures;           // whether gradients of leaves are kept in the Pass, not added to the leaves
  bool leaf_hooks = true;  // whether hooks of leaves are called
};

// One backward pass. Gradients of leaves are added to the leaves' gradients while the pass runs, or kept in
// the Pass: with `captures`, and for leaves with hooks.
class Pass {
 public:
  explicit Pass(PassOptions options)
      : options_(options), mode_{options.recorded, !options.captures, &kept_}, grad_mode_(options.recorded) {}

  void start_at(const NDArray& root, const NDArray& seed, bool shared);
  // Requests the gradient of `input`; then only requested gradients are computed. Returns false if no root
  // was computed from `input`. Call after start_at(), with `captures`.
  bool ask_for(const NDArray& input);

  void run();  // runs the backward pass; throws, having changed nothing, if the tape cannot be run

  // Returns the gradient of `input`, in memory that nothing else refers to unless the gradient is on the
  // tape. Call after run(), with `captures`.
  NDArray gradient_of(const NDArray& input) const;
  // Adds the captured gradients to the gradients of the leaves. Call after run().
  void give_to_leaves();

 private:
  void find_nodes(const std::shared_ptr<Node>& root);
  void skip_unwanted();
  void take_back_loans();
  void run_hooked(PendingNode& next);
  void run_node(const PendingNode& pending);
  void run_rows(const Node& node, const NDArray& grad_output);
  void run_part(const Node& node, const NDArray& grad_output);
  NDArray recorded_part(const Node& node, const NDArray& grad_output);
  std::vector<NDArray> gradients_of(const Node& node, const NDArray& grad_output, MadeGradients& made);
  NDArray whole_gradient(const Input& input, const NDArray& like);
  NDArray whole_in_leaf(const Input& input, const NDArray& like);
  void add(Sum& sum, const NDArray& gradient);
  void add_to_input(const Input& input, const NDArray& gradient, bool shared);
  const char* name() const { return asked_ ? "grad" : "backward"; }
  bool captures(const AutogradMeta& leaf) const { return options_.captures || !leaf.hooks.empty(); }

  const PassOptions options_;
  KeptInPass kept_{};
  const BackwardMode mode_;
  const GradMode grad_mode_;
  PendingNodes nodes_;
  std::unordered_map<std::shared_ptr<AutogradMeta>, Sum> leaves_;  // captured gradients
  std::unordered_map<std::shared_ptr<Node>, Sum> inner_;  // captured gradients of arrays other than leaves
  std::vector<std::shared_ptr<Storage>> seeds_;
  std::unordered_set<const AutogradMeta*> wanted_leaves_;
  bool asked_ = false;
};

// Collects all nodes that root was computed from.
void Pass::find_nodes(const std::shared_ptr<Node>& root) {
  std::vector<std::shared_ptr<Node>> stack{root};
  while (!stack.empty()) {
    const std::shared_ptr<Node> node = std::move(stack.back());
    stack.pop_back();
    if (!nodes_.try_emplace(node->sequence, PendingNode{node, {}}).second) continue;
    for (const Input& input : node->inputs)
      if (input.meta && input.meta->producer) stack.push_back(input.meta->producer);
  }
}

// Ends loans of memory that the backward pass reads, which must not be used for its gradients.
void Pass::take_back_loans() {
  if (!mode_.lends_memory) return;
  for (const auto& [sequence, pending] : nodes_) {
    for (const Input& input : pending.node->inputs) {
      if (!input.meta || !input.meta->leaf) continue;
      const std::lock_guard lock(input.meta->mutex);
      if (!input.meta->lent_memory.defined()) continue;
      const std::shared_ptr<Storage>& storage = input.meta->lent_memory.storage();
      const bool is_seed = std::find(seeds_.begin(), seeds_.end(), storage) != seeds_.end();
      if (is_seed || is_saved(nodes_, storage)) input.meta->lent_memory = NDArray();
    }
  }
}

void Pass::start_at(const NDArray& root, const NDArray& seed, bool shared) {
  const std::shared_ptr<AutogradMeta> meta = meta_of(root);
  if (!meta->producer) return add_to_input(input_of(root, meta), seed, shared);
  find_nodes(meta->producer);
  seeds_.push_back(seed.storage());
  add(nodes_.at(meta->producer->sequence).sum, seed);
}

bool Pass::ask_for(const NDArray& input) {
  asked_ = true;
  const std::shared_ptr<AutogradMeta> meta = meta_of(input);
  if (meta->producer) {
    inner_.emplace(meta->producer, Sum());
    return nodes_.count(meta->producer->sequence) > 0;
  }
  wanted_leaves_.insert(meta.get());
  const auto uses = [&](const Input& one) { return one.meta == meta; };
  // The inputs of a freed node are not known any more. The node counts as one that uses the leaf, and run()
  // refuses it.
  return leaves_.count(meta) > 0 || std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& entry) {
           const Node& node = *entry.second.node;
           return node.freed || std::any_of(node.inputs.begin(), node.inputs.end(), uses);
         });
}

// Marks nodes that lead to no requested array, so that they do not run.
void Pass::skip_unwanted() {
  for (auto next = nodes_.rbegin(); next != nodes_.rend(); ++next) {
    const std::vector<Input>& inputs = next->second.node->inputs;
    next->second.wanted =
        next->second.node->freed || std::any_of(inputs.begin(), inputs.end(), [&](const Input& input) {
          if (!input.meta) return false;
          const std::shared_ptr<Node>& producer = input.meta->producer;
          if (!producer) return wanted_leaves_.count(input.meta.get()) > 0;
          return inner_.count(producer) > 0 || nodes_.at(producer->sequence).wanted;
        });
  }
}

void Pass::run() {
  if (asked_) skip_unwanted();
  for (const auto& [sequence, pending] : nodes_)
    if (pending.wanted) check_ready(name(), *pending.node, options_.recorded);
  take_back_loans();
  while (!nodes_.empty()) {
    PendingNode next = std::move(nodes_.begin()->second);
    run_hooked(next);
    if (!options_.keep_tape) free_node(*next.node);
    nodes_.erase(nodes_.begin());
  }
  for (auto& [leaf, sum] : leaves_)
    if (options_.leaf_hooks) run_hooks("a leaf", leaf->hooks, sum);
}

// Runs the hooks of the node's output, then the node.
void Pass::run_hooked(PendingNode& next) {
  if (!next.sum.gradient.defined()) return;
  if (next.wanted && next.node->freed)
    refuse_freed(name(), *next.node, "a backward() that a hook or a gradient ran");
  const InNode inside(*next.node);
  run_hooks(next.node->name, next.node->hooks, next.sum);
  if (const auto inner = inner_.find(next.node); inner != inner_.end()) {
    inner->second = next.sum;
    // The node's Backward may have kept grad_output.
    if (!next.node->keeps_no_gradient) inner->second.owned = false;
  }
  if (next.wanted) run_node(next);
}

NDArray Pass::gradient_of(const NDArray& input) const {
  const std::shared_ptr<AutogradMeta> meta = meta_of(input);
  Sum sum;
  if (meta->producer) {
    sum = inner_.at(meta->producer);
  } else if (const auto leaf = leaves_.find(meta); leaf != leaves_.end()) {
    sum = leaf->second;
  }
  if (!sum.gradient.defined()) return {};
  if (options_.recorded) return sum.gradient.is_contiguous() ? sum.gradient : sum.gradient.contiguous();
  return sum.owned && sum.gradient.is_contiguous() ? sum.gradient.detach() : sum.gradient.detach().copy();
}

void Pass::give_to_leaves() {
  for (auto& [leaf, sum] : leaves_) {
    if (!options_.recorded) {
      accumulate_in_leaf(*leaf, sum.gradient, !sum.owned);
      continue;
    }
    give_recorded(*leaf, sum.gradient);
  }
}

void Pass::add(Sum& sum, const NDArray& gradient) {
  if (!sum.gradient.defined()) {
    sum.gradient = gradient;
  } else if (sum.owned && !options_.recorded) {
    sum.gradient += gradient;
  } else {
    sum.gradient = sum.gradient + gradient;
    sum.owned = true;
  }
}

void Pass::add_to_input(const Input& input, const NDArray& gradient, bool shared) {
  if (input.meta->producer) return add(nodes_.at(input.meta->producer->sequence).sum, gradient);
  if (!input.meta->leaf || input.meta->drops_gradient) return;
  if (captures(*input.meta)) return add(leaves_[input.meta], gradient);
  accumulate_in_leaf(*input.meta, gradient, shared);
}

// Runs node.backward and returns its gradients. `made` gets the memory that it got from make_gradient().
std::vector<NDArray> Pass::gradients_of(const Node& node, const NDArray& grad_output, MadeGradients& made) {
  const CallSite site = CallSite::on_behalf_of(node.where);
  const RunsBackward running(node, mode_);
  std::vector<NDArray> gradients = node.backward(grad_output);
  check_count(node, gradients.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!node.inputs[i].meta || !gradients[i].defined()) continue;
    gradients[i] = resolved(gradients[i]);
    check_gradient(node, node.inputs[i], gradients[i]);
    if (options_.recorded && !on_tape(gradients[i])) refuse_second_gradient(node.name);
    check_nan(node, i, gradients[i]);
  }
  made = std::move(RunsBackward::made());
  return gradients;
}

void Pass::run_rows(const Node& node, const NDArray& grad_output) {
  const Input& input = node.inputs.front();
  if (!input.meta || !input.meta->leaf) return;
  if (captures(*input.meta)) {
    throw Error(std::string(node.name) +
                ": its gradient is row-sparse, which only backward() without create_graph and hooks gives");
  }
  const CallSite site = CallSite::on_behalf_of(node.where);
  const RunsBackward running(node, mode_);
  const RowSparse gradient = node.rows(grad_output);
  check_gradient(node, input, gradient);
  accumulate_rows_in_leaf(*input.meta, gradient);
}

// The array to which a part of the gradient of `input` is added; undefined for a leaf whose gradient cannot
// be changed in place. All parts of one backward pass are added to the same array; for a leaf, the parts of
// all passes are.
NDArray Pass::whole_gradient(const Input& input, const NDArray& like) {
  if (!input.meta->producer && !captures(*input.meta)) return whole_in_leaf(input, like);
  Sum& sum = input.meta->producer ? nodes_.at(input.meta->producer->sequence).sum : leaves_[input.meta];
  if (!sum.gradient.defined()) {
    sum.gradient = make_result(like, input.shape, input.dtype);
    sum.gradient.fill(0);
  } else if (!sum.owned) {
    sum.gradient = sum.gradient.detach().copy();
  }
  sum.owned = true;
  return sum.gradient;
}

// The gradient of a leaf; undefined if it cannot be changed in place.
NDArray Pass::whole_in_leaf(const Input& input, const NDArray& like) {
  AutogradMeta& leaf = *input.meta;
  NDArray fresh = gradient_for(input, like, mode_.lends_memory);
  const std::lock_guard lock(leaf.mutex);
  if (leaf.grad.defined()) return leaf.grad_owned ? leaf.grad : NDArray();
  fresh.fill(0);
  leaf.grad = fresh;
  leaf.grad_owned = true;
  add_sparse_part(leaf);
  return fresh;
}

void Pass::run_part(const Node& node, const NDArray& grad_output) {
  const Input& input = node.inputs.front();
  if (!input.meta || !input.meta->needs_gradient() || input.meta->drops_gradient) return;
  if (options_.recorded) return add_to_input(input, recorded_part(node, grad_output), false);
  NDArray whole = whole_gradient(input, grad_output);
  const bool apart = !whole.defined();
  if (apart) {
    whole = make_result(grad_output, input.shape, input.dtype);
    whole.fill(0);
  }
  {
    const CallSite site = CallSite::on_behalf_of(node.where);
    node.add(grad_output, whole);
    check_nan(node, 0, whole);
  }
  if (apart) accumulate_in_leaf(*input.meta, whole, false);
}

// Computes the gradient of a part into an array of its own, and records this as an operator on grad_output.
// The gradient of that operator is the operator of the node.
NDArray Pass::recorded_part(const Node& node, const NDArray& grad_output) {
  if (!node.part) refuse_second_gradient(node.name);
  const CallSite site = CallSite::on_behalf_of(node.where);
  const Input& input = node.inputs.front();
  NDArray whole = make_result(grad_output, input.shape, input.dtype);
  {
    const GradMode off(false);
    whole.fill(0);
    node.add(grad_output.detach(), whole);
  }
  record(node.name, whole, {grad_output}, {},
         [part = node.part](const NDArray& g) { return std::vector{part(g)}; });
  return whole;
}

void Pass::run_node(const PendingNode& pending) {
  const Node& node = *pending.node;
  check_saved(node);  // a second check: a hook or a gradient function may have run since check_ready()
  const NDArray& grad_output = pending.sum.gradient;
  if (node.rows) return run_rows(node, grad_output);
  if (node.add) return run_part(node, grad_output);
  MadeGradients made;
  const std::vector<NDArray> gradients = gradients_of(node, grad_output, made);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Input& input = node.inputs[i];
    if (!input.meta || !gradients[i].defined()) continue;
    add_to_input(input, gradients[i], is_shared(node, grad_output, gradients, i, made));
  }
}

// With `create_graph` the seed is on the tape, and so is every gradient computed from it: one that is not was
// made by a kernel that records nothing.
// The gradients of `inputs` after the pass has run; zeros for one that is used and has none.
std::vector<NDArray> gradients_after(const Pass& pass, const std::vector<NDArray>& inputs,
                                     const std::vector<bool>& used) {
  std::vector<NDArray> gradients;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    gradients.push_back(pass.gradient_of(inputs[i]));
    if (!gradients[i].defined() && used[i]) gradients[i] = zeros_like(inputs[i].detach());
  }
  return gradients;
}

}  // namespace

void operators_detail::refuse_second_gradient(const char* op) {
  throw Error(std::string(op) + ": its gradient has no gradient, which create_graph asks for");
}

NDArray make_gradient(std::size_t index, const NDArray& like) {
  check_defined("make_gradient", like);
  const Node* node = RunsBackward::node();
  if (!node) throw Error("make_gradient: no Backward runs on this thread");
  NDArray gradient = gradient_for(node->inputs.at(index), like, RunsBackward::mode().lends_memory);
  if (!node->keeps_no_gradient) RunsBackward::made().push_back(gradient.storage());
  return gradient;
}

void backward(const NDArray& root, const BackwardOptions& options, Where where) {
  const ArrayUse::Pause own_arrays;
  const CallSite site(where);
  check_defined("backward", root);
  EngineScope scope(root.engine());
  const NDArray seed = checked_seed("backward", root, options.seed, options.create_graph);
  Pass pass({options.keep_tape || options.create_graph, options.create_graph, options.create_graph});
  pass.start_at(root, seed, options.seed.defined());
  pass.run();
  pass.give_to_leaves();
}

void backward(const NDArray& root, const NDArray& seed, bool keep_tape, Where where) {
  backward(root, BackwardOptions{.seed = seed, .keep_tape = keep_tape}, where);
}

std::vector<NDArray> grad(const std::vector<NDArray>& outputs, const std::vector<NDArray>& inputs,
                          const GradOptions& options, Where where) {
  const ArrayUse::Pause own_arrays;
  const CallSite site(where);
  if (outputs.empty() || inputs.empty()) throw InvalidArgument("grad: no outputs, or no inputs");
  if (!options.seeds.empty() && options.seeds.size() != outputs.size()) {
    throw InvalidArgument("grad: " + std::to_string(options.seeds.size()) + " seeds for " +
                          std::to_string(outputs.size()) + " outputs");
  }
  check_arrays("grad", outputs);
  check_arrays("grad", inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!on_tape(inputs[i]))
      throw InvalidArgument(
          "grad: input " + std::to_string(i) +
          " requires no gradient; call "
          "set_requires_grad on x before the outputs are computed from x, outside of NoGrad");
  }
  EngineScope scope(outputs.front().engine());
  std::vector<NDArray> seeds;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    seeds.push_back(checked_seed("grad", outputs[i], options.seeds.empty() ? NDArray() : options.seeds[i],
                                 options.create_graph));
  }
  Pass pass({options.keep_tape || options.create_graph, options.create_graph, true});
  for (std::size_t i = 0; i < outputs.size(); ++i) pass.start_at(outputs[i], seeds[i], true);
  std::vector<bool> used;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    used.push_back(pass.ask_for(inputs[i]));
    if (!used[i] && !options.allow_unused) {
      throw InvalidArgument("grad: no output was computed from input " + std::to_string(i) +
                            "; with allow_unused that is no error, and its gradient undefined");
    }
  }
  pass.run();
  return gradients_after(pass, inputs, used);
}

std::vector<NDArray> operators_detail::grad_for_outer_pass(const std::vector<NDArray>& outputs,
                                                           const std::vector<NDArray>& inputs,
                                                           const std::vector<NDArray>& seeds) {
  Pass pass({.keep_tape = false, .recorded = false, .captures = true, .leaf_hooks = false});
  for (std::size_t i = 0; i < outputs.size(); ++i) pass.start_at(outputs[i], seeds[i], true);
  for (const NDArray& input : inputs) pass.ask_for(input);
  pass.run();
  return gradients_after(pass, inputs, std::vector<bool>(inputs.size(), false));
}

}  // namespace heddle
