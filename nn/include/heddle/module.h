// Module: a function on arrays with parameters, buffers and modules inside, each under a name. Training, checkpoints and the
// exchange between processes find by these names whatever was registered.
//
//   struct Block : Module {
//     Dense inner = child("inner", Dense(8, 8));
//     NDArray gain = parameter("gain", ones({8}));
//     NDArray forward(const NDArray& x) override { return x + inner(x) * gain; }
//   };
//   Block block;  // block.parameters(): inner.weight, inner.bias, gain
#pragma once

#include <concepts>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <heddle/call_site.h>
#include <heddle/module_call.h>
#include <heddle/ndarray.h>

namespace heddle {

class Layer;

struct Parameter {
  std::string name;  // a path: "inner.weight"
  NDArray value;     // a leaf, or an array of Module::state()
};

// A function on arrays, with what it has registered. A copy is the same module: it shares what is registered, and the mode. Registering is for one thread at a time; calls of a
// module that is complete may come from several.
class Module {
 public:
  Module(const Module&) = default;
  Module& operator=(const Module&) = default;
  virtual ~Module() = default;

  // forward(x), whose ops and errors name `where`. Throws InvalidArgument for what forward() refuses. The first call in each mode after anything
  // was registered also throws it if ops of this thread changed an array, or used a leaf, that is no argument, not made by forward(), not registered.
  NDArray operator()(const NDArray& x, Where where = Where::current());
  // The same of several arrays with several results: forward_all(inputs). An input that may be missing is undefined then.
  std::vector<NDArray> run(std::span<const NDArray> inputs, Where where = Where::current());
  std::vector<NDArray> run(std::initializer_list<NDArray> inputs, Where where = Where::current()) {
    return run(std::span(inputs.begin(), inputs.size()), where);
  }

  // In the order of registration, a child's at the place of the child; an array that has several names under its first one.
  std::vector<Parameter> parameters() const;  // the parameters to be trained: all that are not frozen
  std::vector<Parameter> state() const;  // all parameters, all saved buffers: what a checkpoint has to hold

  struct Child;
  std::vector<Child> children() const;  // the modules registered in this module itself

  // Training or inference, here and in all modules that are inside now; training at first.
  void train(bool on = true);
  bool training() const;
  void freeze(bool on = true);  // parameters require no gradient; make the trainer afterwards
  // Moves parameters, buffers and gradients, here and in all modules inside, with all arrays that share their memory. Waits for their ops; no other
  // thread may use them meanwhile. A "local" store's optimizer state follows at the next step. What NumPy or DLPack were given keeps the memory from before. After an error all is where it was.
  void to(Device device, Where where = Where::current());

  // Calls of this module compute products in bf16 or f16, as in an Autocast, and return f32; f32: not, whatever is around; none: as around them.
  void autocast(std::optional<DType> dtype);
  std::optional<DType> autocast() const;

  // Calls a function before, or after, each call of this module, in the order in which they were added; see ModuleHook. Any thread may add and
  // remove. An exception of the function is the call's.
  HookHandle before_call(ModuleHook hook);
  HookHandle after_call(ModuleHook hook);

  // The layer of the library that this module is, or stands for; null: its forward() is not the library's.
  virtual const Layer* as_layer() const { return nullptr; }

  // "Dense(784, 128)"; the name of the class, and a line for each child.
  virtual std::string to_string() const;

 protected:
  Module();

  // What the module computes of one array. A module of several arrays, or results, has an operator() of its own:
  //   NDArray operator()(const NDArray& x, const NDArray& mask, Where where = Where::current()) {
  //     return call({x, mask}, [&] { return softmax(matmul(x, weight) + mask); }, where);
  //   }
  virtual NDArray forward(const NDArray& x);
  virtual std::vector<NDArray> forward_all(std::span<const NDArray> inputs);  // forward(x) of one array
  template <std::invocable Body>
  std::invoke_result_t<Body> call(std::initializer_list<NDArray> arguments, Body&& body,
                                  Where where = Where::current());

  // These register under a name without a dot that nothing in this module has, and return what they were given. They throw InvalidArgument for
  // another name, and for an undefined array. parameter() makes a leaf: use its result.
  [[nodiscard]] NDArray parameter(const std::string& name, NDArray value);
  // An array that forward() changes, such as running statistics. `saved`: state() has it.
  NDArray buffer(const std::string& name, NDArray value, bool saved = true);
  // Refuses a module that is, or holds, this one.
  template <std::derived_from<Module> M> M child(const std::string& name, M module) {
    add_child(name, std::make_shared<M>(module), false);
    return module;
  }
  template <std::derived_from<Module> M>
  std::shared_ptr<M> child(const std::string& name, std::shared_ptr<M> module) {
    add_child(name, module, false);
    return module;
  }
  // For languages in which an attribute may get another value. The name stands for `array` afterwards if that is a leaf or if the name stood
  // for an array; else for nothing. What replaces a parameter becomes one, frozen if the old one was: use what is returned.
  void set(const std::string& name, std::shared_ptr<Module> module) {
    add_child(name, std::move(module), true);
  }
  NDArray set(const std::string& name, const NDArray& array);
  void remove(const std::string& name);
  virtual std::string class_name() const;  // the name of the C++ class, for to_string() and errors

 private:
  friend nn_detail::ModuleNode;
  HookHandle add_hook(ModuleHook hook, bool before);
  void add_child(const std::string& name, std::shared_ptr<Module> module, bool replaces);
  std::shared_ptr<nn_detail::ModuleNode> node_;
};

struct Module::Child {
  std::string name;
  std::shared_ptr<Module> module;
};

std::ostream& operator<<(std::ostream& out, const Module& module);  // module.to_string()

template <std::invocable Body>
std::invoke_result_t<Body> Module::call(std::initializer_list<NDArray> arguments, Body&& body, Where where) {
  ModuleCall call(*this, {arguments.begin(), arguments.size()}, where);
  if constexpr (std::is_void_v<std::invoke_result_t<Body>>) {
    std::forward<Body>(body)();
    call.done();
  } else {
    std::invoke_result_t<Body> result = std::forward<Body>(body)();
    call.done(nn_detail::outputs_in(result));
    return result;
  }
}

}  // namespace heddle
