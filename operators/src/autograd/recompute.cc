// Functions that run again in the backward pass.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <heddle/autocast.h>
#include <heddle/autograd.h>
#include <heddle/autograd/recompute.h>
#include <heddle/creation.h>
#include <heddle/random_replay.h>

#include "autograd/record.h"
#include "autograd/running.h"
#include "autograd/tape.h"
#include "core/operator.h"

namespace heddle {

using namespace operators_detail;

namespace {

constexpr const char* kName = "recompute";
using Arrays = Recomputed::Arrays;

NDArray leaf_like(const NDArray& input) {
  NDArray leaf = input.detach();
  if (on_tape(input)) make_passing_leaf(leaf);
  return leaf;
}

// One call of a recomputed function, kept for the backward pass.
struct Call {
  std::shared_ptr<const Recomputed::Function> function;
  Arrays inputs;                // leaves where a gradient is wanted, apart from the tape
  Arrays leaves{};              // that the function uses besides
  std::vector<bool> tracked{};  // which outputs have a gradient
  RandomDraws draws{};
  std::optional<DType> precision = Autocast::current();  // around the call

  // In a pass, keeps the gradient of an output for gradients().
  void keep_seed(std::size_t output, const NDArray& gradient) const;
  // The gradients of inputs and leaves, from those of the outputs that the pass has kept.
  Arrays gradients() const;

 private:
  Arrays inputs_after(const Arrays& gradients) const;
  Arrays run_again(const Arrays& again) const;
};

bool alike(const NDArray& a, const NDArray& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() && a.device() == b.device();
}

// A copy of an array, laid out in memory as it is, that is made once the others are computed.
NDArray copy_after(const NDArray& array, const Arrays& others) {
  const EngineScope scope(array.engine());
  Dims axes, back = Dims::filled(array.ndim(), 0);
  for (int axis = 0; axis < array.ndim(); ++axis) axes.push_back(axis);
  std::vector<std::int64_t> order(axes.begin(), axes.end());
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return array.strides()[static_cast<int>(a)] > array.strides()[static_cast<int>(b)];
  });
  for (int i = 0; i < array.ndim(); ++i) {
    axes[i] = order[static_cast<std::size_t>(i)];
    back[static_cast<int>(axes[i])] = i;
  }
  const NDArray source = array.permuted(axes), copy(source.shape(), source.dtype(), source.device());
  Access access{.mutate = {copy.var()}, .name = kName, .brief = true};
  for (const NDArray& other : others)
    if (other.defined()) access.read.add(other.var());
  copy.engine().push([] {}, access, CallSite::current());
  copy.assign(source);
  return copy.permuted(back);
}

// Inputs for a run that waits for the gradients: else the engine would run the functions of all calls before it uses the
// results of one, and memory would hold them all.
Arrays Call::inputs_after(const Arrays& gradients) const {
  Arrays again;
  for (const NDArray& input : inputs) {
    again.push_back(copy_after(input.detach(), gradients));
    if (on_tape(input)) make_passing_leaf(again.back());
  }
  return again;
}

Arrays Call::run_again(const Arrays& again) const {
  const GradMode on(true);
  const OuterUse nested;  // the function's leaves are no use of a recompute() around it
  const DrawScope replay(draws);
  std::optional<Autocast> as_before;
  if (precision) as_before.emplace(*precision);
  return (*function)(again);
}

void Call::keep_seed(std::size_t output, const NDArray& gradient) const {
  Arrays& seeds = (*RunsBackward::mode().kept)[this];
  seeds.resize(tracked.size());
  seeds[output] = gradient.detach();
}

Arrays Call::gradients() const {
  if (differentiating_gradient()) refuse_second_gradient(kName);
  KeptInPass& kept = *RunsBackward::mode().kept;
  const Arrays of_outputs = std::exchange(kept[this], {});
  kept.erase(this);
  const Arrays again = inputs_after(of_outputs), outputs = run_again(again);
  Arrays roots, given, wanted;
  for (std::size_t i = 0; i < of_outputs.size(); ++i) {
    if (!of_outputs[i].defined()) continue;
    if (i >= outputs.size() || !outputs[i].defined() || !alike(outputs[i], of_outputs[i]) ||
        !on_tape(outputs[i]))
      throw Error(
          "recompute: the function has other results than when it ran first; it must not depend on what "
          "changes "
          "between a call and its backward pass");
    roots.push_back(outputs[i]);
    given.push_back(of_outputs[i]);
  }
  for (const Arrays* list : {&again, &std::as_const(leaves)})
    std::copy_if(list->begin(), list->end(), std::back_inserter(wanted), on_tape);
  Arrays found = grad_for_outer_pass(roots, wanted, given);
  Arrays all;
  auto next = found.begin();
  for (const Arrays* list : {&again, &std::as_const(leaves)})
    for (const NDArray& array : *list) all.push_back(on_tape(array) ? std::move(*next++) : NDArray());
  return all;
}

// Puts outputs on the tape that were computed from `sources`: of several outputs each from an array that stands for the
// call, so that a pass runs the function once, after it has the gradients of all outputs.
void record_call(const std::shared_ptr<Call>& call, Arrays& outputs, const Arrays& sources, Where where) {
  const CallSite site(where);
  std::vector<std::size_t> tracked;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (call->tracked[i]) tracked.push_back(i);
  Arrays saved;
  for (const NDArray& source : sources) saved.push_back(save_for_backward(source));
  if (tracked.size() == 1) {
    const std::size_t only = tracked.front();
    return record_op(kName, outputs[only], sources, saved, [call, only](const NDArray& gradient) {
      call->keep_seed(only, gradient);
      return call->gradients();
    });
  }
  const NDArray& first = outputs[tracked.front()];
  const EngineScope scope(first.engine());
  NDArray whole = zeros({1}, DType::f32, first.device());
  record_op(kName, whole, sources, saved, [call](const NDArray&) { return call->gradients(); });
  for (const std::size_t i : tracked) {
    record(kName, outputs[i], {whole}, {}, [call, i, like = whole.detach()](const NDArray& gradient) {
      if (differentiating_gradient()) refuse_second_gradient(kName);
      call->keep_seed(i, gradient);
      return Arrays{zeros_like(like)};
    });
  }
}

// Leaves of the list that are not among the inputs, each once.
Arrays other_leaves(const Arrays& leaves, const Arrays& inputs) {
  Arrays found;
  for (const NDArray& leaf : leaves) {
    const auto same = [&](const NDArray& other) { return other.grad_meta() == leaf.grad_meta(); };
    if (std::none_of(inputs.begin(), inputs.end(), same) && std::none_of(found.begin(), found.end(), same))
      found.push_back(leaf);
  }
  return found;
}

}  // namespace

Recomputed::Recomputed(Function function, Where where) {
  const CallSite site(where);
  if (!function) throw InvalidArgument("recompute: the function is empty");
  function_ = std::make_shared<const Function>(std::move(function));
}

// The function's own calls name their lines: no CallSite of this call counts in it.
Recomputed::Arrays Recomputed::run(const Arrays& inputs, Where where) const {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined()) continue;
    const CallSite site(where);
    throw InvalidArgument("recompute: input " + std::to_string(i) + " is an undefined array");
  }
  if (NoGrad::active()) return (*function_)(inputs);
  auto call = std::make_shared<Call>(Call{.function = function_, .inputs = {}});
  std::vector<std::uint64_t> versions;
  for (const NDArray& input : inputs) versions.push_back(input.storage()->version());
  for (const NDArray& input : inputs) call->inputs.push_back(leaf_like(input));
  Arrays outputs;
  {
    const OuterUse use;
    const DrawScope record(call->draws);
    outputs = (*function_)(call->inputs);
    call->leaves = other_leaves(use.leaves(), call->inputs);
  }
  bool any = false;
  for (NDArray& output : outputs) {
    const bool tracked = output.defined() && on_tape(output);
    if (output.defined()) output = output.detach();
    call->tracked.push_back(tracked);
    any = any || tracked;
  }
  if (!any) return outputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].storage()->version() == versions[i]) continue;
    const CallSite site(where);
    throw InvalidArgument("recompute: the function changes input " + std::to_string(i) +
                          " in place, and would change it again in the backward pass; make it change a copy");
  }
  Arrays sources = inputs;
  sources.insert(sources.end(), call->leaves.begin(), call->leaves.end());
  record_call(call, outputs, sources, where);
  return outputs;
}

NDArray Recomputed::operator()(const NDArray& input, Where where) const {
  Arrays outputs = run({input}, where);
  const CallSite site(where);
  if (outputs.size() == 1) return outputs[0];
  throw InvalidArgument("recompute: the function has returned " + std::to_string(outputs.size()) +
                        " arrays, of which run() gives a list; wanted one");
}

bool is_recomputing() noexcept { return DrawScope::replays(); }

}  // namespace heddle
