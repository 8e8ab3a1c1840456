#include "arrays/function_arguments.h"

#include <algorithm>
#include <optional>

#include <nanobind/stl/string.h>

#include "arguments.h"
#include "arrays/array.h"
#include "arrays/devices.h"
#include "call_site.h"

namespace heddle::python {
namespace {

[[noreturn]] void refuse(const FunctionInfo& info, const ArgumentInfo& argument, nb::handle object) {
  std::string wanted = name_of(argument.kind);
  if (argument.kind == ArgumentKind::integers) wanted = "int or " + wanted;
  if (!argument.choices.empty()) {
    if (argument.kind == ArgumentKind::text) wanted.clear();
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

ArgumentOf name_of(const FunctionInfo& info, const ArgumentInfo& argument) {
  return {info.name.c_str(), argument.name.c_str()};
}

std::vector<NDArray> arrays_in(const FunctionInfo& info, const ArgumentInfo& argument, nb::handle object,
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

OperatorValue array_value(const FunctionInfo& info, const ArgumentInfo& argument, nb::handle object,
                          DType floats, Where where) {
  if (const NDArray* array = array_in(object)) return *array;
  if (!becomes_array(object)) refuse(info, argument, object);
  return to_array(name_of(info, argument), object, std::nullopt, where, floats);
}

std::vector<RowSparse> rows_in(const FunctionInfo& info, const ArgumentInfo& argument, nb::handle object) {
  if (!PyTuple_Check(object.ptr()) && !PyList_Check(object.ptr())) refuse(info, argument, object);
  std::vector<RowSparse> list;
  for (nb::handle one : object) {
    if (!nb::isinstance<RowSparse>(one)) refuse(info, argument, object);
    list.push_back(*nb::inst_ptr<RowSparse>(one));
  }
  return list;
}

std::string choice_in(const FunctionInfo& info, const ArgumentInfo& argument, nb::handle object) {
  if (PyUnicode_Check(object.ptr()))
    for (const std::string& word : argument.choices)
      if (PyUnicode_CompareWithASCIIString(object.ptr(), word.c_str()) == 0) return word;
  refuse(info, argument, object);
}

// `floats`: the dtype of Python's own floats in a list. `generator` is set if the argument is a generator, which the
// call has to lock.
OperatorValue convert(const FunctionInfo& info, const ArgumentInfo& argument, nb::handle object, DType floats,
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
      if (PyUnicode_Check(object.ptr()) && argument.choices.empty()) return text_in(of, object);
      return choice_in(info, argument, object);
    case ArgumentKind::integers:
      if (PyUnicode_Check(object.ptr()) && !argument.choices.empty())
        return choice_in(info, argument, object);
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

// Argument i, where an int of any size may stand beside another array.
nb::object within_64_bits(const FunctionInfo& info, const ArgumentInfo& argument, PyObject* const* given,
                          std::size_t i, bool comparison) {
  if (argument.kind != ArgumentKind::array_or_number || !PyLong_Check(given[i])) return nb::borrow(given[i]);
  const NDArray* beside = nullptr;
  for (std::size_t k = 0; k < info.arguments.size() && !beside; ++k) {
    if (k != i && given[k] && info.arguments[k].kind == ArgumentKind::array_or_number)
      beside = array_in(given[k]);
  }
  return operand_beside(beside, given[i], comparison);
}

// A list of floats beside an f64 array keeps its digits.
DType floats_of_list(PyObject* const* given, std::size_t count, std::size_t i) {
  if (!PyList_Check(given[i])) return DType::f32;
  const auto wide = [&](PyObject* one) { return one && one != given[i] && holds_f64(one); };
  return std::any_of(given, given + count, wide) ? DType::f64 : DType::f32;
}

// The device where a call makes arrays if none is given: the default one. A layer that finds its sizes in its first input
// makes them where that is, which the device of its description stands for.
Device device_to_make_at(const FunctionInfo& info, PyObject* const* given, std::size_t count) {
  for (std::size_t i = 0; i < info.arguments.size(); ++i)
    if (info.arguments[i].inferred && (i >= count || !given[i] || given[i] == Py_None)) return cpu();
  return default_device();
}

// The value of an argument that is not given, where `device` is not the CPU that of a device.
OperatorValue default_of(const ArgumentInfo& argument, Device device) {
  if (argument.kind == ArgumentKind::device && device != cpu()) return device;
  return argument.default_value.value_or(OperatorValue());
}

// How many arguments have values: the first `count`, and those up to a device that is not the CPU.
std::size_t count_with_device(const FunctionInfo& info, std::size_t count, Device device) {
  if (device == cpu()) return count;
  for (std::size_t i = count; i < info.arguments.size(); ++i)
    if (info.arguments[i].kind == ArgumentKind::device) return i + 1;
  return count;
}

// The device of the first array that was given, or was made of memory of a GPU; else the default one.
Device device_of_call(PyObject* const* given, std::size_t count, const std::vector<OperatorValue>& values) {
  if (const std::optional<Device> device = device_among(given, count)) return *device;
  for (const OperatorValue& value : values)
    if (const auto* array = std::get_if<NDArray>(&value);
        array && array->defined() && array->device() != cpu())
      return array->device();
  return default_device();
}

// Arrays that were made of lists and arrays of NumPy go to the device of the arrays beside them.
void place_arrays(PyObject* const* given, std::size_t count, std::vector<OperatorValue>& values,
                  Where where) {
  const Device device = device_of_call(given, count, values);
  if (device == cpu()) return;
  for (std::size_t i = 0; i < count; ++i) {
    if (!given[i]) continue;
    if (auto* const array = std::get_if<NDArray>(&values[i]))
      *array = placed(device, given[i], *array, where);
    auto* const arrays = std::get_if<std::vector<NDArray>>(&values[i]);
    if (!arrays) continue;
    for (std::size_t k = 0; k < arrays->size(); ++k) {
      const nb::object one = nb::steal(PySequence_GetItem(given[i], static_cast<Py_ssize_t>(k)));
      if (!one.is_valid()) raise_set();
      (*arrays)[k] = placed(device, one, (*arrays)[k], where);
    }
  }
}

// A default as a Python literal, or by its name if it has none.
std::string literal(const OperatorValue& value) {
  if (std::holds_alternative<DType>(value) || std::holds_alternative<Device>(value))
    return "'" + value.to_string() + "'";
  return value.to_string();
}

}  // namespace

CallValues call_values(const FunctionInfo& info, PyObject* const* given, std::size_t count, Where where,
                       bool comparison) {
  CallValues call{{}, nullptr};
  const Device made_at = default_device() == cpu() ? cpu() : device_to_make_at(info, given, count);
  const std::size_t valued = count_with_device(info, count, made_at);
  call.values.reserve(valued);
  for (std::size_t i = 0; i < valued; ++i) {
    const ArgumentInfo& argument = info.arguments[i];
    if (i >= count || !given[i] || (given[i] == Py_None && argument.takes_none())) {
      call.values.push_back(default_of(argument, made_at));
    } else {
      call.values.push_back(convert(info, argument, within_64_bits(info, argument, given, i, comparison),
                                    floats_of_list(given, count, i), where, call.generator));
    }
  }
  place_arrays(given, count, call.values, where);
  return call;
}

std::string parameters_text(const FunctionInfo& info) {
  std::string text;
  for (const ArgumentInfo& argument : info.arguments) {
    if (&argument != &info.arguments.front()) text += ", ";
    text += argument.name;
    if (argument.default_value) text += "=" + literal(*argument.default_value);
  }
  return text;
}

nb::list described_arguments(const FunctionInfo& info) {
  nb::list arguments;
  for (const ArgumentInfo& argument : info.arguments) {
    nb::list choices;
    for (const std::string& word : argument.choices) choices.append(word);
    arguments.append(nb::make_tuple(
        argument.name, std::string(name_of(argument.kind)) + (argument.inferred ? " or None" : ""), choices,
        argument.default_value ? nb::cast(literal(*argument.default_value)) : nb::none()));
  }
  return arguments;
}

}  // namespace heddle::python
