// Modules: the class that Python's own derive from, Sequential, and a class for each layer of the registry.
#include <memory>
#include <optional>
#include <string>
#include <typeinfo>
#include <vector>

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <nanobind/trampoline.h>

#include <heddle/autograd.h>
#include <heddle/layer_registry.h>
#include <heddle/layers/attention.h>
#include <heddle/layers/transformer.h>
#include <heddle/sequential.h>

#include "arguments.h"
#include "arrays/array.h"
#include "arrays/devices.h"
#include "arrays/function_arguments.h"
#include "call_site.h"
#include "models.h"
#include "module.h"
#include "module_calls.h"
#include "module_gc.h"

namespace heddle::python {
namespace {

using namespace nb::literals;

// A module that is an object of Python: of a class written there, or a layer of the registry.
struct PythonModule : Module {
  NB_TRAMPOLINE(Module, 1);
  PythonModule() = default;
  explicit PythonModule(const std::shared_ptr<Module>& layer) : Module(*layer), layer_(layer) {}

  NDArray forward(const NDArray& x) override {
    const CallsPython calling(false);
    const nb::object self = nb::find(static_cast<const Module*>(this));
    if (!self.is_valid() || !nb::hasattr(self, "forward")) {
      if (!layer_)
        throw InvalidArgument(to_string() +
                              ": forward is missing; want a class that defines forward(self, x)");
      const ReleaseGil released;
      return (*layer_)(x);
    }
    const nb::object result = self.attr("forward")(wrap(NDArray(x)));
    const NDArray* const array = array_in(result);
    if (!array) throw InvalidArgument(to_string() + ": forward() has not returned an NDArray");
    return *array;
  }
  std::vector<NDArray> forward_all(std::span<const NDArray> inputs) override {
    const CallsPython calling(false);
    const nb::object self = nb::find(static_cast<const Module*>(this));
    if (!self.is_valid() || !nb::hasattr(self, "forward")) {
      if (!layer_) return Module::forward_all(inputs);
      const ReleaseGil released;
      return layer_->run(inputs);
    }
    nb::list arrays;
    for (const NDArray& one : inputs) arrays.append(one.defined() ? wrap(NDArray(one)) : nb::none());
    return results_in(*this, self.attr("forward")(*nb::tuple(arrays)));
  }
  const Layer* as_layer() const override {
    const HoldGil gil;
    const nb::object self = nb::find(static_cast<const Module*>(this));
    const bool is_plain = layer_ && !extended_ && !(self.is_valid() && nb::hasattr(self, "forward"));
    return is_plain ? layer_->as_layer() : nullptr;
  }
  std::string to_string() const override { return layer_ ? layer_->to_string() : Module::to_string(); }
  std::string class_name() const override {
    const HoldGil gil;
    const nb::object self = nb::find(static_cast<const Module*>(this));
    return self.is_valid() ? kind_of(self) : "Module";
  }

  // decode() of the layers MultiHeadAttention and TransformerBlock.
  NDArray decode(const NDArray& x, AttentionCache& cache, const NDArray& memory, Where where) {
    if (auto* const block = dynamic_cast<TransformerBlock*>(layer_.get()))
      return block->decode(x, cache, memory, where);
    auto* const attention = dynamic_cast<MultiHeadAttention*>(layer_.get());
    if (!attention)
      throw InvalidArgument(to_string() + ": decode() is for MultiHeadAttention and TransformerBlock");
    if (memory.defined()) throw InvalidArgument(to_string() + ": decode() takes no memory");
    return attention->decode(x, cache, where);
  }

  // What registers something: a layer of the registry is not the library's afterwards, unless an array was replaced by one like it.
  template <class T> T child(const std::string& name, T module) {
    extended_ = true;
    return Module::child(name, std::move(module));
  }
  NDArray parameter(const std::string& name, NDArray value) {
    extended_ = true;
    return Module::parameter(name, std::move(value));
  }
  NDArray buffer(const std::string& name, NDArray value, bool saved) {
    extended_ = true;
    return Module::buffer(name, std::move(value), saved);
  }
  void set(const std::string& name, std::shared_ptr<Module> module) {
    extended_ = true;
    Module::set(name, std::move(module));
  }
  NDArray set(const std::string& name, const NDArray& array) {
    if (layer_ && !extended_) extended_ = !has_like(name, array);
    return Module::set(name, array);
  }
  void remove(const std::string& name) {
    if (layer_ && !extended_) extended_ = has(name);
    Module::remove(name);
  }

 private:
  bool has(const std::string& name) const {
    const std::vector<Child> all = children();
    return has_like(name, {}) ||
           std::any_of(all.begin(), all.end(), [&](const Child& one) { return one.name == name; });
  }
  // Whether an array has the name and, unless `array` is undefined, its shape and dtype.
  bool has_like(const std::string& name, const NDArray& array) const {
    try {
      for (const Parameter& one : state())
        if (one.name == name)
          return !array.defined() ||
                 (one.value.shape() == array.shape() && one.value.dtype() == array.dtype());
    } catch (const InvalidArgument&) {  // sizes are not known yet
    }
    return false;
  }

  std::shared_ptr<Module> layer_;
  bool extended_ = false;
};

// A Sequential registers by add() alone.
PythonModule& open_in(const char* function, nb::handle self) {
  auto* const open = dynamic_cast<PythonModule*>(&self_in(function, self));
  if (!open) refuse_type({function, "self"}, self, "a class derived from Module");
  return *open;
}

// A class of the registry's. Lives as long as the process, as what it points to does.
struct LayerClass {
  const LayerInfo* info;
  PyObject* type;
  std::vector<const char*> names;
  std::size_t required = 0;  // arguments without a default; they come first
  std::string signature;
};

void make(const LayerClass& layer, nb::handle self, const nb::args& args, const nb::kwargs& kwargs) {
  if (!nb::isinstance(self, nb::handle(layer.type)))
    refuse_type({"__init__", "self"}, self, "a " + layer.info->name);
  if (nb::inst_ready(self)) raise(PyExc_TypeError, kind_of(self) + ".__init__: the module is made already");
  std::vector<PyObject*> all;
  nb::list words;
  for (nb::handle value : args) all.push_back(value.ptr());
  for (auto [word, value] : kwargs) {
    words.append(word);
    all.push_back(value.ptr());
  }
  const nb::tuple keywords(words);
  std::vector<PyObject*> given(layer.names.size());
  const std::size_t size = layer.names.size();
  take_arguments(layer.info->name.c_str(), all.data(), static_cast<Py_ssize_t>(args.size()), keywords.ptr(),
                 layer.names.data(), size, size, layer.required, given.data());
  const Where where = python_call_site();
  const auto [values, generator] = call_values(*layer.info, given.data(), size, where);
  std::shared_ptr<Module> made;
  without_gil(generator, [&, &values = values] { made = make_layer(*layer.info, values, {}, where); });
  new (nb::inst_ptr<PythonModule>(self)) PythonModule(made);
  nb::inst_mark_ready(self);
}

void add_class(nb::module_& m, const LayerInfo& info) {
  auto& layer = *new LayerClass{&info, nullptr, {}, 0, {}};
  for (const ArgumentInfo& argument : info.arguments) {
    layer.names.push_back(argument.name.c_str());
    if (argument.required()) ++layer.required;
  }
  const std::string parameters = parameters_text(info);
  layer.signature = "def __init__(self" + (parameters.empty() ? "" : ", " + parameters) + ") -> None";
  const nb::handle base = nb::type<Module>();
  nb::dict content;
  content["__module__"] = m.attr("__name__");
  content["__doc__"] =
      info.documentation + (info.input.empty() ? "" : "\n\n" + info.input + " -> " + info.output);
  content["__slots__"] = nb::tuple();  // a misspelt attribute is an error
  nb::object made = base.type()(info.name, nb::make_tuple(base), content);
  const auto init = [&layer](nb::handle self, const nb::args& args, const nb::kwargs& kwargs) {
    make(layer, self, args, kwargs);
  };
  nb::setattr(made, "__init__",
              nb::cpp_function(init, nb::is_method(), nb::scope(made), nb::name("__init__"),
                               nb::sig(layer.signature.c_str())));
  layer.type = made.inc_ref().ptr();
  m.attr(info.name.c_str()) = made;
}

// Registers an attribute's new value in the module: a module or a leaf. Any other value removes what had its
// name.
void register_attribute(nb::handle self, const std::string& name, nb::handle value) {
  auto* const open = dynamic_cast<PythonModule*>(nb::cast<Module*>(self));
  if (!open) return;
  if (nb::isinstance<Module>(value)) {
    open->set(name, module_in({"Module", name.c_str()}, value));
  } else if (nb::isinstance<NDArray>(value)) {
    NDArray& array = *nb::inst_ptr<NDArray>(value);  // set() returns the leaf
    array = open->set(name, array);
  } else {
    open->remove(name);
  }
}

void set_attribute(nb::handle self, nb::handle name, nb::handle value) {
  const NDArray* const array = array_in(value);
  if (nb::isinstance<Module>(value) || (array && array->defined() && is_leaf(*array)))
    check_initialised(self);
  const nb::object earlier = nb::getattr(self, name, nb::handle());
  if (PyObject_GenericSetAttr(self.ptr(), name.ptr(), value.ptr()) != 0) raise_set();
  if (!is_initialised(self)) return;
  try {
    register_attribute(self, nb::cast<std::string>(name), value);
  } catch (...) {
    if (PyObject_GenericSetAttr(self.ptr(), name.ptr(), earlier.ptr()) != 0)
      PyErr_Clear();  // `earlier` is null if there was no such attribute
    throw;
  }
}

void remove_attribute(nb::handle self, nb::handle name) {
  if (!nb::isinstance<Module>(self)) refuse_type({"__delattr__", "self"}, self, "a Module");
  if (PyObject_GenericSetAttr(self.ptr(), name.ptr(), nullptr) != 0) raise_set();
  if (!is_initialised(self)) return;
  if (auto* const open = dynamic_cast<PythonModule*>(nb::cast<Module*>(self)))
    open->remove(nb::cast<std::string>(name));
}

nb::object child(nb::handle self, const std::string& name, nb::handle module) {
  open_in("child", self).child(name, module_in({"child", "module"}, module));
  return nb::borrow(module);
}

// Makes the Python object's array the leaf that parameter() returns.
nb::object parameter(nb::handle self, const std::string& name, nb::handle value) {
  PythonModule& open = open_in("parameter", self);
  NDArray* const array = nb::isinstance<NDArray>(value) ? nb::inst_ptr<NDArray>(value) : nullptr;
  if (!array) refuse_type({"parameter", "value"}, value, "an NDArray");
  *array = open.parameter(name, *array);
  return nb::borrow(value);
}

nb::object buffer(nb::handle self, const std::string& name, nb::handle value, bool saved) {
  PythonModule& open = open_in("buffer", self);
  const NDArray* const array = array_in(value);
  if (!array) refuse_type({"buffer", "value"}, value, "an NDArray");
  open.buffer(name, *array, saved);
  return nb::borrow(value);
}

nb::dict children(nb::handle self) {
  nb::dict all;
  for (const Module::Child& one : self_in("children", self).children())
    all[one.name.c_str()] = nb::cast(one.module);
  return all;
}

void bind_parameter(nb::module_& m) {
  nb::class_<Parameter>(m, "Parameter", "A name and an array.")
      .def(
          "__init__",
          [](Parameter* self, std::string name, const NDArray& value) {
            new (self) Parameter{std::move(name), value};
          },
          "name"_a, "value"_a)
      .def_ro("name", &Parameter::name)
      .def_prop_ro(
          "value", [](Parameter& self) -> NDArray& { return self.value; }, nb::rv_policy::reference_internal,
          nb::sig("def value(self) -> NDArray"));
}

void bind_module(nb::module_& m) {
  nb::class_<Module, PythonModule>(
      m, "Module", nb::type_slots(module_slots),
      "A function on arrays with parameters, buffers and modules inside. Classes in Python define forward(). "
      "A module, or an array "
      "that requires a gradient, is registered under its name by being assigned to an attribute.")
      .def(nb::init<>())
      .def("__setattr__", &set_attribute, "name"_a, "value"_a.none(),
           nb::sig("def __setattr__(self, name: str, value: Any, /) -> None"))
      .def("__delattr__", &remove_attribute, nb::sig("def __delattr__(self, name: str, /) -> None"))
      .def("child", &child, "name"_a, "module"_a, "Registers a module, and returns it.",
           nb::sig("def child(self, name: str, module: Module) -> Module"))
      .def("parameter", &parameter, "name"_a, "value"_a,
           "Registers an array that is trained, whose requires_grad is set, and returns it.",
           nb::sig("def parameter(self, name: str, value: NDArray) -> NDArray"))
      .def("buffer", &buffer, "name"_a, "value"_a, "saved"_a = true,
           "Registers an array that forward() changes, and returns it. With saved, state() has it.",
           nb::sig("def buffer(self, name: str, value: NDArray, saved: bool = True) -> NDArray"))
      .def(
          "parameters", [](nb::handle self) { return self_in("parameters", self).parameters(); },
          nb::sig("def parameters(self) -> list[Parameter]"),
          "What is trained: all parameters but frozen ones.")
      .def(
          "state", [](nb::handle self) { return self_in("state", self).state(); },
          nb::sig("def state(self) -> list[Parameter]"),
          "All parameters and saved buffers: what a checkpoint has to hold.")
      .def("children", &children, nb::sig("def children(self) -> dict[str, Module]"))
      .def(
          "train", [](nb::handle self, bool on) { self_in("train", self).train(on); }, "on"_a = true,
          nb::sig("def train(self, on: bool = True) -> None"), "Training or inference; training at first.")
      .def_prop_ro(
          "training", [](nb::handle self) { return self_in("training", self).training(); },
          nb::sig("def training(self) -> bool"))
      .def(
          "freeze", [](nb::handle self, bool on) { self_in("freeze", self).freeze(on); }, "on"_a = true,
          nb::sig("def freeze(self, on: bool = True) -> None"),
          "Parameters require no gradient from then on. Make the trainer afterwards.")
      .def(
          "to",
          [](nb::handle self, nb::handle device) {
            Module& module = self_in("to", self);
            const Device on = to_device({"to", "device"}, device);
            in_call("to", [&] {
              const Where where = python_call_site();
              const ReleaseGil released;
              module.to(on, where);
            });
            return nb::borrow(self);
          },
          "device"_a, nb::sig("def to(self, device: DeviceLike) -> Module"),
          "Moves parameters, buffers and gradients to a device, with all arrays that share their memory.\n"
          "Make the trainer afterwards.")
      .def(
          "autocast",
          [](nb::handle self, nb::handle dtype) {
            Module& module = self_in("autocast", self);
            std::optional<DType> to;
            if (!dtype.is_none()) to = to_dtype({"autocast", "dtype"}, dtype);
            in_call("autocast", [&] { module.autocast(to); });
            return nb::borrow(self);
          },
          "dtype"_a.none() = "bf16",
          nb::sig("def autocast(self, dtype: DTypeLike | None = 'bf16') -> Module"),
          "Calls of this module compute products in bf16 or f16, and return f32; f32: not, whatever is "
          "around; None: as "
          "around them. Returns the module.")
      .def_prop_ro(
          "autocast_dtype",
          [](nb::handle self) -> nb::object {
            const std::optional<DType> dtype = self_in("autocast_dtype", self).autocast();
            return dtype ? from_dtype(*dtype) : nb::object(nb::none());
          },
          nb::sig("def autocast_dtype(self) -> DType | None"))
      .def(
          "__repr__",
          [](nb::handle self) {
            return is_initialised(self) ? self_in("__repr__", self).to_string()
                                        : kind_of(self) + " without super().__init__()";
          },
          nb::sig("def __repr__(self) -> str"));
}

Module& item(const Sequential& self, std::int64_t index) {
  const auto size = static_cast<std::int64_t>(self.size());
  if (index >= -size && index < size) return self[static_cast<std::size_t>(index < 0 ? index + size : index)];
  const std::string what =
      "Sequential: index is " + std::to_string(index) + "; there are " + std::to_string(size) + " modules";
  throw nb::index_error(what.c_str());
}

void bind_sequential(nb::module_& m) {
  nb::class_<Sequential, Module>(m, "Sequential", nb::is_final(), "Modules one after the other.")
      .def(
          "__init__",
          [](Sequential* self, const nb::args& modules) {
            auto made = std::make_unique<Sequential>();
            for (nb::handle one : modules) made->add(module_in({"Sequential", "one of modules"}, one));
            new (self) Sequential(*made);
          },
          nb::sig("def __init__(self, *modules: Module) -> None"))
      .def(
          "add",
          [](nb::handle self, nb::handle module) {
            if (!nb::isinstance<Sequential>(self)) refuse_type({"add", "self"}, self, "a Sequential");
            check_initialised(self);
            nb::cast<Sequential*>(self)->add(module_in({"add", "module"}, module));
          },
          "module"_a, nb::sig("def add(self, module: Module) -> None"))
      .def("__len__", &Sequential::size)
      .def("__getitem__", &item, "index"_a, nb::rv_policy::reference_internal);
}

nb::object decode(nb::handle self, nb::handle x, nb::handle cache, nb::handle memory) {
  const Where where = python_call_site();
  PythonModule& open = open_in("decode", self);
  if (!nb::isinstance<AttentionCache>(cache)) refuse_type({"decode", "cache"}, cache, "an AttentionCache");
  AttentionCache& kept = *nb::inst_ptr<AttentionCache>(cache);
  const Device device = place_of(open);
  const NDArray tokens = placed(device, x, to_array({"decode", "x"}, x, std::nullopt, where), where);
  NDArray looked_at;
  if (!memory.is_none())
    looked_at = placed(device, memory, to_array({"decode", "memory"}, memory, std::nullopt, where), where);
  NDArray result;
  {
    const ReleaseGil released;
    result = open.decode(tokens, kept, looked_at, where);
  }
  return wrap(std::move(result));
}

nb::object array_or_none(const NDArray& array) { return array.defined() ? wrap(NDArray(array)) : nb::none(); }

// AttentionCache, and decode() of the layers that have it.
void bind_decoding(nb::module_& m) {
  nb::class_<AttentionCache>(
      m, "AttentionCache",
      "The keys and values of the first tokens of sequences that are made token by token. For one layer, and "
      "one thread at a time.")
      .def(nb::init<>())
      .def_prop_ro(
          "key", [](const AttentionCache& self) { return array_or_none(self.key); },
          nb::sig("def key(self) -> NDArray | None"), "(batch, kv_heads, capacity, features / heads).")
      .def_prop_ro(
          "value", [](const AttentionCache& self) { return array_or_none(self.value); },
          nb::sig("def value(self) -> NDArray | None"))
      .def_ro("length", &AttentionCache::length);
  for (const char* const name : {"MultiHeadAttention", "TransformerBlock"}) {
    const nb::object layer = m.attr(name);
    nb::setattr(
        layer, "decode",
        nb::cpp_function(
            &decode, nb::is_method(), nb::scope(layer), nb::name("decode"), "x"_a, "cache"_a,
            "memory"_a = nb::none(),
            nb::sig(
                "def decode(self, x: ArrayLike, cache: AttentionCache, memory: ArrayLike | None = None) -> "
                "NDArray"),
            "What a call with the whole sequence so far gives for its last tokens, x, "
            "which are added to the cache. Needs a causal layer."));
  }
}

// For the generator of the type stubs.
nb::list layer_table() {
  nb::list list;
  for (const LayerInfo& info : layers()) list.append(nb::make_tuple(info.name, described_arguments(info)));
  return list;
}

}  // namespace

void bind_modules(nb::module_& m) {
  bind_parameter(m);
  bind_module(m);
  bind_module_calls(m);
  bind_sequential(m);
  bind_models(m);
  for (const LayerInfo& info : layers()) add_class(m, info);
  bind_decoding(m);
  m.def("_layer_table", &layer_table, nb::sig("def _layer_table() -> list[Any]"));
}

}  // namespace heddle::python
