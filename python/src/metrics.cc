// Metrics: a class for each metric of the registry.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nanobind/stl/string.h>

#include <heddle/metric.h>

#include "arguments.h"
#include "arrays/array.h"
#include "arrays/devices.h"
#include "arrays/function_arguments.h"
#include "call_site.h"
#include "holders.h"
#include "module.h"

namespace heddle::python {
namespace {

using namespace nb::literals;
using PythonMetric = Locked<Metric>;

// The objects of a call in the order of `arguments`; null: not given.
std::vector<PyObject*> in_order(const char* function, const std::vector<ArgumentInfo>& arguments,
                                const nb::args& args, const nb::kwargs& kwargs) {
  std::vector<const char*> names;
  std::size_t required = 0;  // arguments without a default; they come first
  for (const ArgumentInfo& argument : arguments) {
    names.push_back(argument.name.c_str());
    required += argument.required();
  }
  std::vector<PyObject*> all, given(names.size());
  nb::list words;
  for (nb::handle value : args) all.push_back(value.ptr());
  for (auto [word, value] : kwargs) {
    words.append(word);
    all.push_back(value.ptr());
  }
  const nb::tuple keywords(words);
  take_arguments(function, all.data(), static_cast<Py_ssize_t>(args.size()), keywords.ptr(), names.data(),
                 names.size(), names.size(), required, given.data());
  return given;
}

void make_in(const MetricInfo& info, nb::handle type, nb::handle self, const nb::args& args,
             const nb::kwargs& kwargs) {
  if (!nb::isinstance(self, type)) refuse_type({"__init__", "self"}, self, "a " + info.name);
  if (nb::inst_ready(self)) raise(PyExc_TypeError, kind_of(self) + ".__init__: the metric is made already");
  const std::vector<PyObject*> given = in_order(info.name.c_str(), info.arguments, args, kwargs);
  const auto [values, generator] = call_values(info, given.data(), given.size(), python_call_site());
  new (nb::inst_ptr<PythonMetric>(self))
      PythonMetric(std::shared_ptr<Metric>(make_metric(info, std::span(values))));
  nb::inst_mark_ready(self);
}

const PythonMetric& metric_in(const char* function, nb::handle self) {
  if (!nb::isinstance<PythonMetric>(self)) refuse_type({function, "self"}, self, "a Metric");
  if (!nb::inst_ready(self))
    raise(PyExc_TypeError, kind_of(self) + ".__init__ has not called super().__init__()");
  return *nb::inst_ptr<PythonMetric>(self);
}

void update_metric(nb::handle self, const nb::args& args, const nb::kwargs& kwargs) {
  const Where where = python_call_site();
  const PythonMetric& metric = metric_in("update", self);
  const MetricInfo& info = metric.object()->info();
  const std::vector<PyObject*> given = in_order("update", info.inputs, args, kwargs);
  const Device device = device_among(given.data(), given.size()).value_or(default_device());
  NDArray arrays[4];
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!given[i] || given[i] == Py_None) continue;
    const ArgumentOf of{info.name.c_str(), info.inputs[i].name.c_str()};
    arrays[i] = placed(device, given[i], to_array(of, given[i], std::nullopt, where), where);
  }
  metric.call([&](Metric& of) { of.update(arrays[0], arrays[1], arrays[2], arrays[3], where); });
}

void merge_metric(nb::handle self, nb::handle state) {
  const Where where = python_call_site();
  const PythonMetric& metric = metric_in("merge", self);
  const NDArray array = to_array({"merge", "state"}, state, std::nullopt, where);
  metric.call([&](Metric& of) { of.merge(array, where); });
}

// Waits for the value without the lock of the interpreter.
template <class Read> auto read_metric(const char* function, nb::handle self, Read read) {
  const PythonMetric& metric = metric_in(function, self);
  const Where where = python_call_site();
  return metric.call_interruptibly(metric.object()->info().name.c_str(),
                                   [read, where](Metric& of) { return read(of, where); });
}

void add_metric_class(nb::module_& m, const MetricInfo& info) {
  // Lives as long as the process, as the class does.
  const std::string& signature = *new std::string(
      "def __init__(self" + (info.arguments.empty() ? "" : ", " + parameters_text(info)) + ") -> None");
  std::string inputs;
  for (const ArgumentInfo& input : info.inputs)
    inputs += (inputs.empty() ? "" : ", ") + input.name + (input.required() ? "" : "=None");
  const nb::handle base = nb::type<PythonMetric>();
  nb::dict content;
  content["__module__"] = m.attr("__name__");
  content["__doc__"] = info.documentation + "\n\nupdate(" + inputs + ")";
  content["__slots__"] = nb::tuple();  // a misspelt attribute is an error
  nb::object made = base.type()(info.name, nb::make_tuple(base), content);
  const nb::handle type = made;
  const auto init = [&info, type](nb::handle self, const nb::args& args, const nb::kwargs& kwargs) {
    make_in(info, type, self, args, kwargs);
  };
  nb::setattr(made, "__init__",
              nb::cpp_function(init, nb::is_method(), nb::scope(made), nb::name("__init__"),
                               nb::sig(signature.c_str())));
  m.attr(info.name.c_str()) = made;
  made.release();
}

// For the generator of the type stubs.
nb::list metric_table() {
  nb::list list;
  for (const MetricInfo& info : metrics()) list.append(nb::make_tuple(info.name, described_arguments(info)));
  return list;
}

}  // namespace

void bind_metrics(nb::module_& m) {
  nb::class_<PythonMetric>(m, "Metric",
                           "A number about predictions, accumulated over batches: update() never waits, "
                           "value() does. Thread-safe.")
      .def("update", &update_metric, nb::sig("def update(self, *args: Any, **kwargs: Any) -> None"),
           "Adds a batch: the arrays that the class names.")
      .def(
          "value",
          [](nb::handle self) {
            return read_metric("value", self, [](Metric& of, Where where) { return of.value(where); });
          },
          nb::sig("def value(self) -> float"), "The metric of all batches, for one with a single number.")
      .def(
          "result",
          [](nb::handle self) {
            const Where where = python_call_site();
            return wrap(metric_in("result", self).call([&](Metric& of) { return of.result(where); }));
          },
          nb::sig("def result(self) -> NDArray"), "The metric of all batches, without waiting for it.")
      .def(
          "state",
          [](nb::handle self) {
            const Where where = python_call_site();
            return wrap(metric_in("state", self).call([&](Metric& of) { return of.state(where); }));
          },
          nb::sig("def state(self) -> NDArray"),
          "What is known of all batches, the live array: all_reduce() sums those of several ranks.")
      .def("merge", &merge_metric, "state"_a, nb::sig("def merge(self, state: NDArray) -> None"),
           "Adds the batches of another metric's state.")
      .def(
          "reset",
          [](nb::handle self) {
            const Where where = python_call_site();
            metric_in("reset", self).call([&](Metric& of) { of.reset(where); });
          },
          nb::sig("def reset(self) -> None"), "Forgets all batches, and errors.")
      .def(
          "__repr__",
          [](nb::handle self) {
            return read_metric("__repr__", self, [](Metric& of, Where where) { return of.to_string(where); });
          },
          nb::sig("def __repr__(self) -> str"));
  for (const MetricInfo& info : metrics()) add_metric_class(m, info);
  m.def("_metric_table", &metric_table, nb::sig("def _metric_table() -> list[Any]"));
}

}  // namespace heddle::python
