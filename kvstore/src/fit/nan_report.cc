#include "fit/nan_report.h"

#include <exception>
#include <functional>
#include <set>
#include <thread>
#include <utility>

#include <heddle/autograd.h>
#include <heddle/ops.h>

#include "fit/buffer_copies.h"

namespace heddle::fit_detail {
namespace {

bool is_finite(const NDArray& array) {
  if (!array.defined() || !is_floating(array.dtype())) return true;
  return all(isfinite(array.detach())).item<bool>();
}

// "infinity" is what overflows, NaN what has no value.
std::string kind_of(const NDArray& array) {
  return any(isnan(array.detach())).item<bool>() ? "NaN" : "infinity";
}

// The first line of a module's text, without the modules inside.
std::string title_of(const Module& module) {
  const std::string text = module.to_string();
  return text.substr(0, text.find_first_of("{\n"));
}

// Hooks on a module and on all inside, while it lives; `look` is told of each call on this thread that has ended.
class CallWatch {
 public:
  using Look = std::function<void(const std::string& path, const Module&, std::span<NDArray> outputs)>;
  CallWatch(Module& net, Look look) : look_(std::move(look)) { add(net, ""); }
  ~CallWatch() {
    for (HookHandle& hook : hooks_) hook.remove();
  }
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;

 private:
  void add(Module& module, const std::string& path) {
    hooks_.push_back(
        module.after_call([this, path, thread = std::this_thread::get_id()](
                              const Module& called, std::span<const NDArray>, std::span<NDArray> outputs) {
          if (std::this_thread::get_id() == thread) look_(path, called, outputs);
        }));
    for (const Module::Child& child : module.children()) {
      held_.push_back(child.module);
      add(*child.module, path.empty() ? child.name : path + "." + child.name);
    }
  }
  Look look_;
  std::vector<HookHandle> hooks_;
  std::vector<std::shared_ptr<Module>> held_;
};

// Sets the arrays of a network back to what they are now, also if forward() puts another array in the place of a buffer.
class StateGuard {
 public:
  StateGuard(const Module& net, const GivenArrays& given)
      : net_(net), given_(given), buffers_(copies_of_buffers(net, {})) {
    for (const Parameter& one : net.state()) {
      const NDArray value = one.value.detach();
      saved_.push_back({one.name, value, value.copy(), value.storage()->version()});
    }
  }
  ~StateGuard() {
    try {
      restore();
    } catch (...) {  // ignored: the loss that is not finite is the error
    }
  }
  StateGuard(const StateGuard&) = delete;
  StateGuard& operator=(const StateGuard&) = delete;

 private:
  void restore() const {
    for (const BufferCopy& one : saved_)
      if (one.value.storage()->version() != one.version && can_put_back(one.value, one.copy, given_))
        one.value.assign(one.copy);
    put_back(net_, buffers_, given_);
  }
  const Module& net_;
  const GivenArrays& given_;
  BufferCopies buffers_, saved_;
};

// The batch first, which may have spoilt what the network keeps.
std::string report_of_inputs(const Module& net, const std::vector<Arrays>& group) {
  for (const Arrays& batch : group) {
    for (std::size_t i = 0; i < batch.size(); ++i)
      if (!is_finite(batch[i]))
        return "array " + std::to_string(i) + " of the batch has " + kind_of(batch[i]);
  }
  for (const auto& all : {net.parameters(), net.state()})
    for (const Parameter& one : all)
      if (!is_finite(one.value)) return one.name + " has " + kind_of(one.value) + " before the step";
  return "";
}

// What a call of the network on each batch shows.
std::string report_of_calls(Module& net, const FitStep& step, const BatchLoss& loss,
                            const std::vector<Arrays>& group) {
  std::string found;
  const CallWatch watch(
      net, [&found](const std::string& path, const Module& module, std::span<NDArray> outputs) {
        if (!found.empty()) return;
        for (const NDArray& one : outputs) {
          if (is_finite(one)) continue;
          found = (path.empty() ? "the network" : "'" + path + "'") + ", " + title_of(module) +
                  ", is the first module whose result has " + kind_of(one);
          return;
        }
      });
  for (const Arrays& batch : group) {
    Arrays inputs, labels;
    step.split(batch, inputs, labels);
    const Arrays outputs = net.run(inputs);
    if (!found.empty()) return found;
    if (!is_finite(loss.compute(outputs, labels)[0]))
      return "the results of the network are finite, and the loss of them is not";
  }
  return "computed again it is finite";
}

}  // namespace

std::string report_of_nan(Module& net, const FitStep& step, const BatchLoss& loss,
                          const std::vector<Arrays>& group, const GivenArrays& given) {
  try {
    std::string found = report_of_inputs(net, group);
    if (!found.empty()) return found;
    const StateGuard guard(net, given);
    const NoGrad no_grad;
    return report_of_calls(net, step, loss, group);
  } catch (const std::exception& error) {
    return std::string("computed again it fails: ") + error.what();
  }
}

}  // namespace heddle::fit_detail
