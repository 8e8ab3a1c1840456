// All operators as Python functions, which are made from the registry of operators.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <nanobind/stl/string.h>

#include <heddle/operator_registry.h>

#include "arguments.h"
#include "arrays/array.h"
#include "arrays/devices.h"
#include "arrays/function_arguments.h"
#include "call_site.h"
#include "models.h"
#include "objects.h"

namespace heddle::python {
namespace {

using namespace nb::literals;

// What a Python function needs to call its operator. Lives as long as the process.
struct Function {
  const OperatorInfo* info;
  std::vector<const char*> names;
  std::size_t required = 0;  // number of arguments without a default, which are the first ones
  bool has_out = false;      // whether the last of `names` is the argument "out"
  std::string doc;           // the documentation, after the signature for Python's module inspect
  PyMethodDef definition{};
};

nb::object result_of(OperatorValues& results) {
  if (results.empty()) return nb::none();
  if (auto* array = std::get_if<NDArray>(&results[0])) return wrap(std::move(*array));
  if (auto* arrays = std::get_if<std::vector<NDArray>>(&results[0])) {
    nb::list list;
    for (NDArray& one : *arrays) list.append(wrap(std::move(one)));
    return nb::tuple(list);
  }
  return nb::cast(std::move(std::get<RowSparse>(results[0])));
}

// The array of the argument `out`, into which the result is written; null if it is not given.
const NDArray* out_argument(const OperatorInfo& info, PyObject* given) {
  if (!given || given == Py_None) return nullptr;
  const NDArray* const out = array_in(given);
  if (!out)
    raise(PyExc_TypeError, info.name + ": out is a " + kind_of(given) + "; wanted: heddle.NDArray or None");
  return out;
}

bool takes_symbol(const OperatorInfo& info, PyObject* const* given, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const nb::handle one(given[i]);
    if (!given[i] || array_in(one)) continue;
    if (is_symbol(one)) return true;
    const bool is_list = PyList_Check(given[i]) || PyTuple_Check(given[i]);
    if (is_list && info.arguments[i].kind == ArgumentKind::arrays && has_symbol(one)) return true;
  }
  return false;
}

PyObject* call(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    constexpr std::size_t kMost = 16;
    const auto& function = *static_cast<const Function*>(PyCapsule_GetPointer(self, nullptr));
    const OperatorInfo& info = *function.info;
    const std::size_t names = function.names.size(), size = names - function.has_out;
    PyObject* given[kMost] = {};
    take_arguments(info.name.c_str(), args, count, keywords, function.names.data(), names, size,
                   function.required, given);
    const NDArray* const out = function.has_out ? out_argument(info, given[size]) : nullptr;
    std::size_t used = size;  // number of arguments up to the last one that is given
    while (used && !given[used - 1]) --used;
    const Where where = python_call_site();
    const CallSite site(where);
    if (takes_symbol(info, given, used)) {
      if (out) raise(PyExc_TypeError, info.name + ": out is given beside a Symbol");
      return apply_to_symbols(info, given, used, where).release().ptr();
    }
    const auto [values, generator] = [&] {
      std::optional<DefaultDevice> beside_out;
      if (out) beside_out.emplace(out->device());
      return call_values(info, given, used, where, info.result_dtype == "bool");
    }();
    OperatorValues results;
    const auto compute = [&, &values = values] {
      out ? call_operator_into(info, values, {}, *out, where)
          : void(results = call_operator(info, values, {}, where));
    };
    without_gil(generator, compute);
    return (out ? nb::borrow(given[size]) : result_of(results)).release().ptr();
  });
}

std::string signature(const OperatorInfo& info) {
  return info.name + "(" + parameters_text(info) +
         (!takes_out(info)         ? ")"
          : info.arguments.empty() ? "*, out=None)"
                                   : ", *, out=None)");
}

std::string describe(const OperatorInfo& info) {
  std::string text = info.documentation;
  if (!info.result_dtype.empty()) text += "\n\nThe result's dtype: " + info.result_dtype + ".";
  if (info.differentiable) text += "\n\nDifferentiable.";
  return text;
}

void add(nb::module_& m, const OperatorInfo& info) {
  auto& function = *new Function{&info, {}, 0, takes_out(info), {}, {}};
  for (const ArgumentInfo& argument : info.arguments) {
    function.names.push_back(argument.name.c_str());
    if (argument.required()) ++function.required;
  }
  if (function.has_out) function.names.push_back("out");
  function.doc = signature(info) + "\n--\n\n" + describe(info);
  function.definition = {info.name.c_str(), as_function(call), METH_FASTCALL | METH_KEYWORDS,
                         function.doc.c_str()};
  const nb::object self = nb::steal(PyCapsule_New(&function, nullptr, nullptr));
  const nb::str module("heddle");
  PyObject* made = PyCFunction_NewEx(&function.definition, self.ptr(), module.ptr());
  if (!made) raise_set();
  m.attr(info.name.c_str()) = nb::steal(made);
}

// The table of all operators, from which python/stubs.py makes type stubs.
nb::list table() {
  nb::list list;
  for (const OperatorInfo& info : operators()) {
    const char* result = info.results.empty() ? "" : name_of(info.results[0]);
    list.append(nb::make_tuple(info.name, described_arguments(info), result, describe(info), info.family));
  }
  return list;
}

PythonGenerator python_generator(const Generator& generator) {
  return PythonGenerator(std::make_shared<Generator>(generator));
}

nb::list split_generator(PythonGenerator& self, int parts) {
  nb::list list;
  for (const Generator& one : self.call([&](Generator& generator) { return generator.split(parts); }))
    list.append(nb::cast(python_generator(one)));
  return list;
}

}  // namespace

void bind_operators(nb::module_& m) {
  nb::class_<PythonGenerator>(m, "Generator", "A seed and how many random numbers have been drawn.")
      .def(
          "__init__",
          [](PythonGenerator* self, std::uint64_t seed) {
            new (self) PythonGenerator(std::make_shared<Generator>(seed));
          },
          "seed"_a = 0)
      .def_prop_ro("seed",
                   [](const PythonGenerator& self) {
                     return self.call([](Generator& generator) { return generator.seed(); });
                   })
      .def_prop_rw(
          "position",
          [](const PythonGenerator& self) {
            return self.call([](Generator& generator) { return generator.position(); });
          },
          [](PythonGenerator& self, std::uint64_t position) {
            self.call([&](Generator& generator) { generator.set_position(position); });
          },
          nb::for_setter(nb::sig("def position(self, value: int, /) -> None")),
          "Save it and the seed to resume.")
      .def("split", &split_generator, "parts"_a, nb::sig("def split(self, parts: int) -> list[Generator]"),
           "Generators with seeds of their own, which follow from this one's seed and position; the next "
           "split gives "
           "others.")
      .def(
          "jumped",
          [](const PythonGenerator& self, std::int64_t times) {
            return self.call([&](Generator& generator) { return python_generator(generator.jumped(times)); });
          },
          "times"_a = 1,
          "A copy that is times * 2**40 blocks further on: one for each rank of a job. jumped(0) is a copy.");
  m.def("manual_seed", &manual_seed, "seed"_a, "Reseeds this thread's generator.");
  nb::list names;
  for (const OperatorInfo& info : operators()) {
    add(m, info);
    names.append(info.name);
  }
  m.attr("_operators") = names;
  m.def("_operator_table", &table, nb::sig("def _operator_table() -> list[Any]"));
}

}  // namespace heddle::python
