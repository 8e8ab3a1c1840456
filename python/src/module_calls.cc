#include "module_calls.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <heddle/autograd.h>
#include <heddle/creation.h>
#include <heddle/module_buffers.h>
#include <heddle/step_memory.h>
#include <heddle/summary.h>

#include "arrays/array.h"
#include "arrays/devices.h"
#include "call_site.h"
#include "interpreter.h"
#include "models.h"
#include "module_gc.h"

namespace heddle::python {

// Without super().__init__() there is a Python object and no module in it.
bool is_initialised(nb::handle module) { return nb::inst_ready(module); }

void check_initialised(nb::handle module) {
  if (is_initialised(module)) return;
  const std::string kind = kind_of(module);
  raise(PyExc_TypeError, kind + ".__init__ has not called super().__init__()");
}

std::shared_ptr<Module> module_in(ArgumentOf of, nb::handle object) {
  if (!nb::isinstance<Module>(object)) refuse_type(of, object, "a Module");
  check_initialised(object);
  return std::shared_ptr<Module>(nb::cast<Module*>(object), ModuleOwner{Reference(nb::borrow(object))});
}

Module& self_in(const char* function, nb::handle self) {
  if (!nb::isinstance<Module>(self)) refuse_type({function, "self"}, self, "a Module");
  check_initialised(self);
  return *nb::cast<Module*>(self);
}

Device place_of(const Module& module) { return device_of(module).value_or(default_device()); }

namespace {

// An array, or a tuple or list of arrays alone; empty for anything else.
std::vector<NDArray> arrays_among(nb::handle result) {
  if (const NDArray* const array = array_in(result)) return {*array};
  if (!PyTuple_Check(result.ptr()) && !PyList_Check(result.ptr())) return {};
  std::vector<NDArray> all;
  for (nb::handle one : result) {
    const NDArray* const array = array_in(one);
    if (!array) return {};
    all.push_back(*array);
  }
  return all;
}

}  // namespace

std::vector<NDArray> results_in(const Module& module, nb::handle result) {
  std::vector<NDArray> all = arrays_among(result);
  if (!all.empty() || (PyTuple_Check(result.ptr()) && nb::len(result) == 0)) return all;
  throw InvalidArgument(module.to_string() +
                        ": forward() has returned neither an NDArray nor a tuple of them");
}

namespace {

using namespace nb::literals;

nb::object tuple_of(std::vector<NDArray> arrays) {
  nb::list list;
  for (NDArray& one : arrays) list.append(one.defined() ? wrap(std::move(one)) : nb::none());
  return nb::tuple(list);
}

// The arrays in an argument: in lists and dicts, in attributes, and those of a module.
void add_arrays(nb::handle object, ModuleCall& call, int level = 0) {
  constexpr int kMostLevel = 6;  // deeper than that, an object may hold itself
  if (level > kMostLevel) return;
  if (const NDArray* array = array_in(object)) {
    call.add(*array);
  } else if (nb::isinstance<Module>(object) && is_initialised(object)) {
    call.add(*nb::cast<Module*>(object));
  } else if (PyTuple_Check(object.ptr()) || PyList_Check(object.ptr())) {
    for (nb::handle one : object) add_arrays(one, call, level + 1);
  } else if (PyDict_Check(object.ptr())) {
    for (auto [key, value] : nb::borrow<nb::dict>(object)) add_arrays(value, call, level + 1);
  } else if (!PyType_Check(object.ptr()) && nb::hasattr(object, "__dict__")) {
    add_arrays(object.attr("__dict__"), call, level + 1);
  }
}

// Calls forward() of a Python class, with whatever arguments it takes.
nb::object call_forward(nb::handle self, const Module& module, nb::handle forward, const nb::args& args,
                        const nb::kwargs& kwargs, Where where) {
  std::vector<NDArray> arrays;  // the arguments that are arrays
  for (nb::handle one : args)
    if (const NDArray* const array = array_in(one)) arrays.push_back(*array);
  for (auto [word, value] : kwargs)
    if (const NDArray* const array = array_in(value)) arrays.push_back(*array);
  ModuleCall call(module, arrays, where);
  if (call.looks()) {
    add_arrays(args, call);
    add_arrays(kwargs, call);
  }
  nb::object result = forward(*args, **kwargs);
  if (result.is_none()) throw InvalidArgument(kind_of(self) + ": forward() has returned nothing");
  if (!call.changes_results()) {
    call.done();
    return result;
  }
  std::vector<NDArray> outputs = arrays_among(result);
  if (outputs.empty()) {
    call.done();
    return result;
  }
  call.done(outputs);
  if (array_in(result)) return wrap(std::move(outputs[0]));
  const nb::object replaced = tuple_of(std::move(outputs));
  return PyList_Check(result.ptr()) ? nb::object(nb::list(replaced)) : replaced;
}

// Inputs that were made of lists and arrays of NumPy go to the device of the arrays beside them, or of the module.
void place_inputs(const Module& module, const std::vector<PyObject*>& given, std::vector<NDArray>& inputs,
                  Where where) {
  const auto made = [](PyObject* one) { return one && one != Py_None && !array_in(one); };
  if (std::none_of(given.begin(), given.end(), made)) return;
  const std::optional<Device> beside = device_among(given.data(), given.size());
  const Device device = beside ? *beside : place_of(module);
  for (std::size_t i = 0; i < given.size(); ++i)
    if (given[i]) inputs[i] = placed(device, given[i], inputs[i], where);
}

// The arrays that a module of C++ is given, by position or by name.
std::vector<NDArray> inputs_in(nb::handle self, const Module& module, const nb::args& args,
                               const nb::kwargs& kwargs, Where where) {
  const std::vector<std::string> names = input_names(module);
  const std::size_t count = args.size() + kwargs.size();
  if (count == 0 || args.size() > names.size())
    raise(PyExc_TypeError, kind_of(self) + ": " + std::to_string(count) + " arguments; want " +
                               (names.size() == 1 ? "one array" : "1 to " + std::to_string(names.size())));
  std::vector<NDArray> inputs(names.size());
  std::vector<PyObject*> given(names.size());
  const auto take = [&](std::size_t i, nb::handle value) {
    if (given[i]) raise(PyExc_TypeError, kind_of(self) + ": '" + names[i] + "' is given twice");
    given[i] = value.ptr();
    if (i == 0 || !value.is_none())
      inputs[i] = to_array({"Module", names[i].c_str()}, value, std::nullopt, where);
  };
  for (std::size_t i = 0; i < args.size(); ++i) take(i, args[i]);
  for (auto [word, value] : kwargs) {
    const std::string name = nb::cast<std::string>(word);
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) raise(PyExc_TypeError, kind_of(self) + ": there is no argument '" + name + "'");
    take(static_cast<std::size_t>(found - names.begin()), value);
  }
  if (!given[0]) raise(PyExc_TypeError, kind_of(self) + ": the argument '" + names[0] + "' is missing");
  place_inputs(module, given, inputs, where);
  while (inputs.size() > 1 && !inputs.back().defined()) inputs.pop_back();
  return inputs;
}

nb::object call(nb::handle self, const nb::args& args, const nb::kwargs& kwargs) {
  const Where where = python_call_site();
  Module& module = self_in("Module", self);
  if (has_symbol(args) || has_symbol(kwargs.values())) return apply_to_symbols(self, args, kwargs, false);
  if (nb::hasattr(self, "forward"))
    return call_forward(self, module, self.attr("forward"), args, kwargs, where);
  const std::vector<NDArray> inputs = inputs_in(self, module, args, kwargs, where);
  const auto* const model = dynamic_cast<const Model*>(&module);
  std::vector<NDArray> results;
  {
    const ReleaseGil released;
    if (inputs.size() == 1 && !model)
      results = {module(inputs[0], where)};
    else
      results = module.run(inputs, where);
  }
  return model && results.size() != 1 ? tuple_of(std::move(results)) : wrap(std::move(results.at(0)));
}

nb::object run(nb::handle self, const nb::args& args, const nb::kwargs& kwargs) {
  const Where where = python_call_site();
  Module& module = self_in("run", self);
  if (has_symbol(args) || has_symbol(kwargs.values())) return apply_to_symbols(self, args, kwargs, true);
  if (nb::hasattr(self, "forward"))
    return tuple_of(
        results_in(module, call_forward(self, module, self.attr("forward"), args, kwargs, where)));
  const std::vector<NDArray> inputs = inputs_in(self, module, args, kwargs, where);
  std::vector<NDArray> results;
  {
    const ReleaseGil released;
    results = module.run(inputs, where);
  }
  return tuple_of(std::move(results));
}

// A function of Python as a hook. It may return what the call is to return in place of its results.
ModuleHook hook_of(const char* function, nb::handle self, nb::object hook, bool after) {
  if (!PyCallable_Check(hook.ptr())) refuse_type({function, "hook"}, hook, "a function");
  return [held = hook_function(self, std::move(hook)), after](
             const Module& module, std::span<const NDArray> inputs, std::span<NDArray> outputs) {
    const CallsPython calling(false);
    const nb::object call = nb::borrow(held->function.get());
    if (!call.is_valid()) return;  // the module is garbage
    nb::object of = nb::find(&module);
    if (!of.is_valid()) of = nb::cast(std::make_shared<Module>(module));  // a module that C++ made
    const nb::object given = tuple_of({inputs.begin(), inputs.end()});
    const nb::object result =
        after ? call(of, given, tuple_of({outputs.begin(), outputs.end()})) : call(of, given);
    if (result.is_none()) return;
    if (!after) throw InvalidArgument("before_call: the hook has returned something; want None");
    std::vector<NDArray> replaced = results_in(module, result);
    if (replaced.size() != outputs.size())
      throw InvalidArgument("after_call: the hook has returned " + std::to_string(replaced.size()) +
                            " arrays; want " + std::to_string(outputs.size()) + ", or None");
    std::move(replaced.begin(), replaced.end(), outputs.begin());
  };
}

ModuleSummary summary(nb::handle self, const nb::args& inputs) {
  const Where where = python_call_site();
  Module& module = self_in("summary", self);
  const std::vector<NDArray> arrays = example_inputs("summary", module, inputs, where);
  const ReleaseGil released;
  return summarize(module, arrays, where);
}

nb::object shapes_of(const ModuleRow& row) {
  nb::list shapes;
  for (const Shape& shape : row.outputs) {
    nb::list sizes;
    for (const std::int64_t size : shape) sizes.append(size);
    shapes.append(nb::tuple(sizes));
  }
  return shapes;
}

// The C++ part of heddle.step_memory(): `state` gives the arrays of the trainer's optimizer by name.
nb::tuple step_memory(nb::handle module, const nb::object& state, const nb::object& step) {
  const Where where = python_call_site();
  Module& net = *module_in({"step_memory", "net"}, module);
  const auto held = std::make_shared<std::pair<Reference, Reference>>(Reference(state), Reference(step));
  StepMemory memory;
  {
    const ReleaseGil released;
    memory = memory_report(
        net,
        [held] {
          const CallsPython calling(false);
          std::map<std::string, NDArray> arrays;
          for (auto [name, array] : nb::cast<nb::dict>(nb::handle(held->first.get())()))
            arrays.emplace(nb::cast<std::string>(name), nb::cast<NDArray>(array));
          return arrays;
        },
        [held] {
          const CallsPython calling(false);
          (void)nb::handle(held->second.get())();
        },
        where);
  }
  nb::list rows;
  for (const ModuleMemory& row : memory.rows)
    rows.append(
        nb::make_tuple(row.path, row.text, row.parameters, row.gradients, row.state, row.activations));
  return nb::make_tuple(rows, memory.others, memory.peak, memory.to_string());
}

void bind_summary(nb::module_& m) {
  m.def("_step_memory", &step_memory,
        nb::sig("def _step_memory(net: Module, state: Callable[[], dict[str, NDArray]], step: Callable[[], "
                "Any]) -> "
                "tuple[Any, ...]"));
  nb::class_<ModuleRow>(m, "ModuleRow", "A line of a summary: numbers of one module and of those inside it.")
      .def_ro("path", &ModuleRow::path)
      .def_ro("text", &ModuleRow::text)
      .def_ro("calls", &ModuleRow::calls)
      .def_prop_ro("outputs", &shapes_of, nb::sig("def outputs(self) -> list[tuple[int, ...]]"),
                   "Shapes of the last call's results.")
      .def_ro("parameters", &ModuleRow::parameters)
      .def_ro("trained", &ModuleRow::trained)
      .def_ro("multiply_adds", &ModuleRow::multiply_adds)
      .def_ro("state_bytes", &ModuleRow::state_bytes)
      .def_ro("output_bytes", &ModuleRow::output_bytes);
  nb::class_<ModuleSummary>(m, "ModuleSummary", "What a module holds, computes and costs; printed, a table.")
      .def_prop_ro(
          "rows", [](const ModuleSummary& self) { return self.rows; },
          nb::sig("def rows(self) -> list[ModuleRow]"))
      .def("__repr__", &ModuleSummary::to_string);
}

}  // namespace

std::vector<NDArray> example_inputs(const char* function, const Module& module, const nb::args& inputs,
                                    Where where) {
  const Device device = place_of(module);
  std::vector<NDArray> arrays;
  for (nb::handle one : inputs) {
    if (PyTuple_Check(one.ptr()))
      arrays.push_back(zeros(to_dims({function, "inputs"}, one), DType::f32, device, where));
    else
      arrays.push_back(placed(device, one, to_array({function, "inputs"}, one, std::nullopt, where), where));
  }
  return arrays;
}

void bind_module_calls(nb::module_& m) {
  bind_summary(m);
  m.def(
      "_place_of",
      [](nb::handle module) {
        return place_of(*module_in({"_place_of", "module"}, module));
      },
      nb::sig("def _place_of(module: Module) -> Device"));
  nb::class_<HookHandle>(m, "HookHandle", "Names a hook of a module.")
      .def("remove", &HookHandle::remove, "The hook is not called again.");
  auto module = nb::borrow<nb::class_<Module>>(nb::type<Module>());
  module
      .def("__call__", &call, nb::sig("def __call__(self, *args: Any, **kwargs: Any) -> Any"),
           "What forward() returns; of a layer with several results the first, of a Model all.")
      .def("run", &run, nb::sig("def run(self, *args: Any, **kwargs: Any) -> tuple[NDArray, ...]"),
           "All results of a call.")
      .def(
          "before_call",
          [](nb::handle self, nb::object hook) {
            return self_in("before_call", self)
                .before_call(hook_of("before_call", self, std::move(hook), false));
          },
          "hook"_a,
          nb::sig("def before_call(self, hook: Callable[[Module, tuple[NDArray, ...]], None]) -> HookHandle"),
          "Calls hook(module, inputs) before each call. A module that was made by load_model, or by another "
          "language, has its "
          "parameters and children for the hook, and cannot be called.")
      .def(
          "after_call",
          [](nb::handle self, nb::object hook) {
            return self_in("after_call", self).after_call(hook_of("after_call", self, std::move(hook), true));
          },
          "hook"_a,
          nb::sig("def after_call(self, hook: Callable[[Module, tuple[NDArray, ...], tuple[NDArray, ...]], "
                  "Any]) -> "
                  "HookHandle"),
          "Calls hook(module, inputs, outputs) after each call. What it returns, if not None, replaces the "
          "outputs.")
      .def("summary", &summary,
           nb::sig("def summary(self, *inputs: ArrayLike | tuple[int, ...]) -> ModuleSummary"),
           "Calls the module once, in inference, and says what each module in it holds, computes and costs. "
           "An input is an array, or the shape of one of zeros.");
}

}  // namespace heddle::python
