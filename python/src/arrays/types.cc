// Dtypes and shapes.
#include <iterator>
#include <map>
#include <optional>
#include <string>

#include <nanobind/stl/string.h>

#include <heddle/dtype.h>

#include "arguments.h"
#include "arrays/array.h"
#include "arrays/devices.h"

namespace heddle::python {
namespace {

constexpr int kDTypes = static_cast<int>(std::size(kAllDTypes));
PyObject* dtype_objects[kDTypes];  // the Python object of each dtype; these are never freed

// The dtypes by name: Heddle's names, NumPy's names, and the names of Python's classes. NumPy's codes, whose number
// counts bytes ("f8" is f64), are left out where Heddle has the same name: "i8" is Heddle's integer of 8 bits.
const std::map<std::string, DType, std::less<>>& dtype_names() {
  static const auto& names = *new std::map<std::string, DType, std::less<>>{
      {"f32", DType::f32}, {"float32", DType::f32},  {"f64", DType::f64},   {"float64", DType::f64},
      {"f16", DType::f16}, {"float16", DType::f16},  {"bf16", DType::bf16}, {"bfloat16", DType::bf16},
      {"i8", DType::i8},   {"int8", DType::i8},      {"u8", DType::u8},     {"uint8", DType::u8},
      {"i32", DType::i32}, {"int32", DType::i32},    {"i64", DType::i64},   {"int64", DType::i64},
      {"i16", DType::i16}, {"int16", DType::i16},    {"u16", DType::u16},   {"uint16", DType::u16},
      {"u32", DType::u32}, {"uint32", DType::u32},   {"u64", DType::u64},   {"uint64", DType::u64},
      {"f2", DType::f16},  {"f4", DType::f32},       {"f8", DType::f64},    {"i1", DType::i8},
      {"i2", DType::i16},  {"i4", DType::i32},       {"u1", DType::u8},     {"u2", DType::u16},
      {"u4", DType::u32},  {"bool", DType::boolean}, {"float", DType::f32}, {"int", DType::i64}};
  return names;
}

const char* numpy_name(DType dtype) {
  static const char* const names[kDTypes] = {"float32", "float64", "int32",    "int64", "uint8",
                                             "bool",    "float16", "bfloat16", "int8",  "int16",
                                             "uint16",  "uint32",  "uint64"};
  return names[static_cast<int>(dtype)];
}

DType dtype_named(ArgumentOf of, const std::string& name) {
  const auto at = dtype_names().find(name);
  if (at == dtype_names().end()) {
    refuse_value(of, "'" + name + "', and there is no dtype of that name",
                 "f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64 or bool");
  }
  return at->second;
}

nb::object numpy_dtype() { return nb::module_::import_("numpy").attr("dtype"); }
bool is_numpy_dtype(nb::handle object) { return nb::isinstance(object, numpy_dtype()); }

}  // namespace

std::string kind_of(nb::handle object) { return utf8_of(object.type().attr("__name__")); }

DType to_dtype(ArgumentOf of, nb::handle object) {
  if (nb::isinstance<PythonDType>(object)) return nb::inst_ptr<PythonDType>(object)->value;
  if (PyUnicode_Check(object.ptr())) return dtype_named(of, text_in(of, object));
  if (object.ptr() == reinterpret_cast<PyObject*>(&PyFloat_Type)) return DType::f32;
  if (object.ptr() == reinterpret_cast<PyObject*>(&PyLong_Type)) return DType::i64;
  if (object.ptr() == reinterpret_cast<PyObject*>(&PyBool_Type)) return DType::boolean;
  // The object is a class, such as float, or a dtype or scalar class of NumPy.
  if (PyType_Check(object.ptr()) || is_numpy_dtype(object))
    return dtype_named(of, utf8_of(numpy_dtype()(object).attr("name")));
  refuse_type(of, object, "a dtype, such as heddle.f32 or 'f32'");
}

namespace {

// The dtype that the object is or stands for, such as NumPy's; empty for other objects.
std::optional<DType> dtype_in(nb::handle other) {
  if (PyUnicode_Check(other.ptr())) {
    const auto at = dtype_names().find(utf8_of(other));
    return at == dtype_names().end() ? std::nullopt : std::optional(at->second);
  }
  const bool is_type = PyType_Check(other.ptr());
  if (!is_type && !nb::isinstance<PythonDType>(other) && !is_numpy_dtype(other)) return std::nullopt;
  try {
    return to_dtype({"DType.__eq__", "other"}, other);
  } catch (const InvalidArgument&) {
  } catch (nb::python_error&) {  // the object is a class for which NumPy has no dtype
  }
  return std::nullopt;
}

}  // namespace

nb::object from_dtype(DType dtype) { return nb::borrow(dtype_objects[static_cast<int>(dtype)]); }

Dims to_dims(ArgumentOf of, nb::handle object) {
  Dims dims;
  if (PyIndex_Check(object.ptr())) {
    dims.push_back(int_argument(of, object));
    return dims;
  }
  const bool list = PyTuple_Check(object.ptr()) || PyList_Check(object.ptr());
  if (!list) refuse_type(of, object, "an int or a tuple of ints");
  const Py_ssize_t size = PySequence_Size(object.ptr());
  if (size > kMaxDims)
    refuse_value(of, std::to_string(size) + " ints", std::to_string(kMaxDims) + " at most");
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* item = PySequence_GetItem(object.ptr(), i);
    if (!item) raise_set();
    const nb::object owned = nb::steal(item);
    if (!PyIndex_Check(item))
      refuse_type(of, object, "an int or a tuple of ints; there is a " + kind_of(item) + " in it");
    dims.push_back(int_argument(of, owned));
  }
  return dims;
}

nb::object from_dims(const Dims& dims) {
  PyObject* tuple = PyTuple_New(dims.size());
  if (!tuple) raise_set();
  for (int i = 0; i < dims.size(); ++i) PyTuple_SetItem(tuple, i, PyLong_FromLongLong(dims[i]));
  return nb::steal(tuple);
}

namespace {

void bind_dtypes(nb::module_& m) {
  nb::class_<PythonDType>(m, "DType", "The type of an array's elements.")
      .def_prop_ro("name", [](const PythonDType& self) { return name_of(self.value); })
      .def_prop_ro(
          "itemsize", [](const PythonDType& self) { return size_of(self.value); }, "Bytes an element.")
      .def_prop_ro("is_floating", [](const PythonDType& self) { return is_floating(self.value); })
      .def_prop_ro("numpy_name", [](const PythonDType& self) { return numpy_name(self.value); })
      .def_prop_ro(
          "dtype", [](const PythonDType& self) { return numpy_dtype()(numpy_name(self.value)); },
          nb::sig("def dtype(self) -> numpy.dtype[Any]"),
          "NumPy's, for np.dtype(x.dtype); TypeError for bf16, which NumPy lacks.")
      .def("__repr__", [](const PythonDType& self) { return std::string("heddle.") + name_of(self.value); })
      .def("__str__", [](const PythonDType& self) { return name_of(self.value); })
      .def(
          "__eq__",
          [](const PythonDType& self, nb::handle other) -> nb::object {
            if (const std::optional<DType> dtype = dtype_in(other)) return nb::bool_(*dtype == self.value);
            return nb::borrow(Py_NotImplemented);
          },
          nb::arg("other").none(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const PythonDType& self) { return static_cast<int>(self.value) + 7; })
      .def(
          "__reduce__",
          [](const PythonDType& self) {
            return self.value == DType::boolean ? "bool_" : name_of(self.value);
          },
          nb::sig("def __reduce__(self) -> str"));
  for (DType dtype : kAllDTypes) {
    const nb::object object = nb::cast(PythonDType{dtype});
    dtype_objects[static_cast<int>(dtype)] = object.inc_ref().ptr();
    m.attr(dtype == DType::boolean ? "bool_" : name_of(dtype)) = object;
    if (dtype != DType::boolean) m.attr(numpy_name(dtype)) = object;
  }
}

}  // namespace

void bind_types(nb::module_& m) {
  bind_dtypes(m);
  bind_devices(m);
}

}  // namespace heddle::python
