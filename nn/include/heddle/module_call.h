// ModuleCall: one call of a module, and the functions that are told of calls.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <heddle/autocast.h>
#include <heddle/call_site.h>
#include <heddle/ndarray.h>

namespace heddle {

class Module;
namespace nn_detail {
struct ModuleNode;
}

// What Module::before_call and Module::after_call call, on the thread that calls the module. `outputs` are those of after_call: a
// hook may assign to them, and the call's results are what they are then. They are empty for a module whose operator() returns
// neither an array nor a vector of arrays.
using ModuleHook =
    std::function<void(const Module& module, std::span<const NDArray> inputs, std::span<NDArray> outputs)>;

// A number that changes with each change of a module's mode, training or inference, in the process; and changes back when
// the mode does.
std::uint64_t module_modes();

// Names a hook. The hook stays when its handle is destroyed.
class HookHandle {
 public:
  HookHandle() = default;
  void remove();  // the hook is not called again; does nothing the second time, or after the module is gone

 private:
  friend Module;
  std::weak_ptr<nn_detail::ModuleNode> node_;
  const ModuleHook* hook_ = nullptr;
};

// One call of a module, from its construction to done(), on one thread: Module::call for other languages.
class ModuleCall {
 public:
  // `module` must outlive the call; references on `arguments` are kept if they are needed. Calls the hooks of before_call.
  ModuleCall(const Module& module, std::span<const NDArray> arguments, Where where);
  ~ModuleCall();
  ModuleCall(const ModuleCall&) = delete;
  ModuleCall& operator=(const ModuleCall&) = delete;
  bool looks() const { return use_ != nullptr; }  // whether done() will look at what forward() has used
  bool changes_results() const {
    return inputs_ != nullptr || widens_;
  }                                   // whether done() may replace outputs
  void add(const NDArray& argument);  // adds an array that forward() may use, before done()
  void add(const Module& argument);   // adds what a module has registered when done() is called
  // Call after forward(); throws what operator() does. Calls the hooks of after_call, which may replace outputs.
  void done(std::span<NDArray> outputs = {});

 private:
  struct Use;
  void look(std::span<const NDArray> arguments);
  void check_use();
  const CallSite site_;
  const Module& module_;
  const nn_detail::ModuleNode* const outer_;      // the module of the call in which this one is
  const bool widens_;                             // whether results that are f16 or bf16 become f32
  std::optional<Autocast> autocast_;              // as Module::autocast says
  std::unique_ptr<Use> use_;                      // null: what the module uses is known already
  std::unique_ptr<std::vector<NDArray>> inputs_;  // null: the module has no hooks
};

namespace nn_detail {
inline std::span<NDArray> outputs_in(NDArray& one) { return {&one, 1}; }
inline std::span<NDArray> outputs_in(std::vector<NDArray>& all) { return all; }
template <class T> std::span<NDArray> outputs_in(T&) { return {}; }
}  // namespace nn_detail

}  // namespace heddle
