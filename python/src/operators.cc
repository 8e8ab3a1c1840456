// All operators, as functions made from their registry.
#include <algorithm>
#include <string>
#include <vector>

#include <nanobind/stl/string.h>

#include <heddle/operator_registry.h>

#include "arguments.h"
#include "array.h"
#include "objects.h"
#include "place.h"

namespace heddle::python {
namespace {

using namespace nb::literals;

// What a function needs to know of its operator. Lives as long as the process.
struct Function {
  const OperatorInfo* info;
  std::vector<const char*> names;
  std::size_t required = 0;  // that have no default; they come first
  bool has_out = false;      // the last name is that of out=
  std::string doc;           // with the signature in front, as inspect reads it
  PyMethodDef definition{};
};

[[noreturn]] void refuse(const OperatorInfo& info, const ArgumentInfo& argument, nb::handle object) {
  std::string wanted = name_of(argument.kind);
  if (!argument.choices.empty()) {
    wanted.clear();
    for (const std::string& word : argument.choices) wanted += (wanted.empty() ? "'" : " or '") + word + "'";
  }
  const bool value = PyUnicode_Check(object.ptr()) && !argument.choices.empty();
  raise(value ? PyExc_ValueError : PyExc_TypeError,
        info.name + ": " + argument.name + " is " +
            (value ? "'" + utf8_of(object) + "'" : "a " + kind_of(object)) + "; wanted: " + wanted);
}

OperatorValue number_value(const Scalar& scalar) {
  if (scalar.is_boolean()) return scalar.as<bool>();
  if (scalar.is_integral()) return scalar.as<std::int64_t>();
  if (scalar.is_huge()) return scalar.as<std::uint64_t>();
  return scalar.real();
}

ArgumentOf name_of(const OperatorInfo& info, const ArgumentInfo& argument) {
  return {info.name.c_str(), argument.name.c_str()};
}

std::vector<NDArray> arrays_in(const OperatorInfo& info, const ArgumentInfo& argument, nb::handle object,
                               Where where) {
  if (!PyTuple_Check(object.ptr()) && !PyList_Check(object.ptr())) refuse(info, argument, object);
  std::vector<NDArray> arrays;
  const DType floats = holds_f64(object) ? DType::f64 : DType::f32;
  for (nb::handle one : object)
    arrays.push_back(to_array(name_of(info, argument), one, std::nullopt, where, floats));
  return arrays;
}

bool becomes_array(nb::handle object) {
  return PyList_Check(object.ptr()) || nb::hasattr(object, "__array_interface__");
}

bool is_integer(nb::handle object) { return PyIndex_Check(object.ptr()) && !PyBool_Check(object.ptr()); }

OperatorValue array_value(const OperatorInfo& info, const ArgumentInfo& argument, nb::handle object,
                          DType floats, Where where) {
  if (const NDArray* array = array_in(object)) return *array;
  if (!becomes_array(object)) refuse(info, argument, object);
  return to_array(name_of(info, argument), object, std::nullopt, where, floats);
}

std::vector<RowSparse> rows_in(const OperatorInfo& info, const ArgumentInfo& argument, nb::handle object) {
  if (!PyTuple_Check(object.ptr()) && !PyList_Check(object.ptr())) refuse(info, argument, object);
  std::vector<RowSparse> list;
  for (nb::handle one : object) {
    if (!nb::isinstance<RowSparse>(one)) refuse(info, argument, object);
    list.push_back(*nb::inst_ptr<RowSparse>(one));
  }
  return list;
}

// floats: what Python's own floats in a list become. generator: set for an argument that is one, which the call has to lock.
OperatorValue convert(const OperatorInfo& info, const ArgumentInfo& argument, nb::handle object, DType floats,
                      Where where, const PythonGenerator*& generator) {
  const ArgumentOf of = name_of(info, argument);
  switch (argument.kind) {
    case ArgumentKind::array:
      return array_value(info, argument, object, floats, where);
    case ArgumentKind::array_or_number: {
      if (const NDArray* array = array_in(object)) return *array;
      if (PyList_Check(object.ptr())) return to_array(of, object, std::nullopt, where, floats);
      std::optional<Operand> operand = to_operand(of, object, where);
      if (!operand) refuse(info, argument, object);
      if (operand->is_array) return operand->array;
      return number_value(operand->scalar);
    }
    case ArgumentKind::array_or_row_sparse:
      if (nb::isinstance<RowSparse>(object)) return *nb::inst_ptr<RowSparse>(object);
      return array_value(info, argument, object, floats, where);
    case ArgumentKind::arrays:
      return arrays_in(info, argument, object, where);
    case ArgumentKind::row_sparse:
      if (!nb::isinstance<RowSparse>(object)) refuse(info, argument, object);
      return *nb::inst_ptr<RowSparse>(object);
    case ArgumentKind::row_sparse_list:
      return rows_in(info, argument, object);
    case ArgumentKind::number:
      return number_value(to_scalar(of, object));
    case ArgumentKind::real:
      if (PyBool_Check(object.ptr())) refuse(info, argument, object);
      return to_scalar(of, object).real();
    case ArgumentKind::integer:
      if (!is_integer(object)) refuse(info, argument, object);
      return int_argument(of, object);
    case ArgumentKind::boolean:
      if (!PyBool_Check(object.ptr())) refuse(info, argument, object);
      return object.ptr() == Py_True;
    case ArgumentKind::text:
      if (!PyUnicode_Check(object.ptr())) refuse(info, argument, object);
      for (const std::string& word : argument.choices) {
        if (PyUnicode_CompareWithASCIIString(object.ptr(), word.c_str()) == 0) return word;
      }
      if (argument.choices.empty()) return text_in(of, object);
      refuse(info, argument, object);
    case ArgumentKind::integers:
      return to_dims(of, object);
    case ArgumentKind::dtype:
      return to_dtype(of, object);
    case ArgumentKind::device:
      return to_device(of, object);
    case ArgumentKind::generator:
      if (!nb::isinstance<PythonGenerator>(object)) refuse(info, argument, object);
      generator = nb::inst_ptr<PythonGenerator>(object);
      return generator->object().get();
  }
  refuse(info, argument, object);
}

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

// Null if it is not given.
const NDArray* out_argument(const OperatorInfo& info, PyObject* given) {
  if (!given || given == Py_None) return nullptr;
  const NDArray* const out = array_in(given);
  if (!out)
    raise(PyExc_TypeError, info.name + ": out is a " + kind_of(given) + "; wanted: heddle.NDArray or None");
  return out;
}

// Argument i, where an int of any size may stand beside another array.
nb::object within_64_bits(const OperatorInfo& info, const ArgumentInfo& argument, PyObject* const* given,
                          std::size_t i) {
  if (argument.kind != ArgumentKind::array_or_number || !PyLong_Check(given[i])) return nb::borrow(given[i]);
  const NDArray* beside = nullptr;
  for (std::size_t k = 0; k < info.arguments.size() && !beside; ++k) {
    if (k != i && given[k] && info.arguments[k].kind == ArgumentKind::array_or_number)
      beside = array_in(given[k]);
  }
  return operand_beside(beside, given[i], info.result_dtype == "bool");
}

// A list of floats beside an f64 array keeps its digits.
DType floats_of_list(PyObject* const* given, std::size_t count, std::size_t i) {
  if (!PyList_Check(given[i])) return DType::f32;
  const auto wide = [&](PyObject* one) { return one && one != given[i] && holds_f64(one); };
  return std::any_of(given, given + count, wide) ? DType::f64 : DType::f32;
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
    std::size_t used = size;  // what is left out at the end has its default
    while (used && !given[used - 1]) --used;
    const Where where = python_place();
    const CallSite site(where);
    const PythonGenerator* generator = nullptr;
    std::vector<OperatorValue> values;
    values.reserve(used);
    for (std::size_t i = 0; i < used; ++i) {
      const ArgumentInfo& argument = info.arguments[i];
      const bool may_be_none = argument.default_value && argument.default_value->is_none();
      if (!given[i] || (given[i] == Py_None && may_be_none)) {
        values.push_back(*argument.default_value);
      } else {
        values.push_back(convert(info, argument, within_64_bits(info, argument, given, i),
                                 floats_of_list(given, used, i), where, generator));
      }
    }
    OperatorValues results;
    const auto compute = [&] {
      out ? call_operator_into(info, values, {}, *out, where)
          : void(results = call_operator(info, values, {}, where));
    };
    if (generator) {
      generator->call([&](Generator&) { compute(); });
    } else {
      const ReleaseGil released;
      compute();
    }
    return (out ? nb::borrow(given[size]) : result_of(results)).release().ptr();
  });
}

// A default as Python's literals have it; what is no literal is its name.
std::string literal(const OperatorValue& value) {
  if (std::holds_alternative<DType>(value) || std::holds_alternative<Device>(value))
    return "'" + value.to_string() + "'";
  return value.to_string();
}

std::string signature(const OperatorInfo& info) {
  std::string text = info.name + "(";
  for (const ArgumentInfo& argument : info.arguments) {
    if (&argument != &info.arguments.front()) text += ", ";
    text += argument.name;
    if (argument.default_value) text += "=" + literal(*argument.default_value);
  }
  if (takes_out(info)) text += info.arguments.empty() ? "*, out=None" : ", *, out=None";
  return text + ")";
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

// For the generator of the type stubs.
nb::list table() {
  nb::list list;
  for (const OperatorInfo& info : operators()) {
    nb::list arguments;
    for (const ArgumentInfo& argument : info.arguments) {
      nb::list choices;
      for (const std::string& word : argument.choices) choices.append(word);
      arguments.append(
          nb::make_tuple(argument.name, name_of(argument.kind), choices,
                         argument.default_value ? nb::cast(literal(*argument.default_value)) : nb::none()));
    }
    const char* result = info.results.empty() ? "" : name_of(info.results[0]);
    list.append(nb::make_tuple(info.name, arguments, result, describe(info), info.family));
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
