// Converts numbers and operands, and defines the operators of the Python class NDArray.
#include <algorithm>
#include <cmath>
#include <string>

#include <heddle/autograd.h>
#include <heddle/elementwise_math.h>
#include <heddle/matmul.h>
#include <heddle/shape_ops.h>

#include "arguments.h"
#include "arrays/array_parts.h"
#include "arrays/devices.h"
#include "call_site.h"
#include "engine/engines.h"

namespace heddle::python {
namespace {

using Binary = NDArray (*)(const Operand&, const Operand&, Where);

// Converts a Python int that is no bool: Python's bools are ints too, but the caller has handled them.
Scalar integer(ArgumentOf of, PyObject* object) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow > 0) {
    const unsigned long long large = PyLong_AsUnsignedLongLong(object);
    if (!PyErr_Occurred()) return large;
    PyErr_Clear();
    refuse_value(of, "an int above 2**64 - 1", "less, or a float");
  }
  if (overflow < 0) refuse_value(of, "an int below -2**63", "more, or a float");
  if (value == -1 && PyErr_Occurred()) raise_set();
  return static_cast<std::int64_t>(value);
}

std::optional<Scalar> number(ArgumentOf of, PyObject* object) {
  if (PyFloat_Check(object)) return PyFloat_AsDouble(object);
  if (PyBool_Check(object)) return object == Py_True;
  if (PyLong_Check(object)) return integer(of, object);
  return std::nullopt;
}

// A function's name as a template argument.
template <std::size_t size> struct Name {
  constexpr Name(const char (&given)[size]) { std::copy_n(given, size, text); }
  char text[size];
};

// How error messages name the other operand of an operator.
template <Name name> constexpr ArgumentOf kOperand{name.text, "an operand"};

nb::object compute(Binary function, const Operand& a, const Operand& b, Where where) {
  NDArray result;
  {
    const PushScope scope((a.is_array ? a : b).array.engine());
    result = function(a, b, where);
  }
  return wrap(std::move(result));
}

// The sign of an int that fits neither i64 nor u64; 0 for all other objects.
int overflow_of(PyObject* object) {
  int overflow = 0;
  if (!PyLong_Check(object)) return 0;
  PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow > 0) PyLong_AsUnsignedLongLong(object);
  if (overflow > 0 && !PyErr_Occurred()) return 0;  // the int is beyond i64, but fits u64
  PyErr_Clear();
  return overflow;
}

// Converts a large int to a float, as Python does; throws OverflowError if it is beyond the range.
nb::object float_of(PyObject* large) {
  const double value = PyLong_AsDouble(large);
  if (PyErr_Occurred()) raise_set();
  return nb::steal(PyFloat_FromDouble(value));
}

// Whether the object is a sequence without arithmetic, such as a list or a str. Without an error, Python
// would take `list * array` for repetition, and `list + array` for concatenation.
bool is_plain_sequence(PyObject* object) {
  PyTypeObject* const type = Py_TYPE(object);
  return PyType_GetSlot(type, Py_sq_concat) && !PyType_GetSlot(type, Py_nb_multiply);
}

// The result of an operator for an operand that it does not know: NotImplemented, so that Python tries the
// operator of the other object or raises TypeError. A plain sequence is refused.
PyObject* not_implemented(ArgumentOf of, nb::handle other) {
  if (is_plain_sequence(other.ptr()))
    refuse_type(of, other, "an array or a number: heddle.array(...) makes an array of a list");
  return nb::borrow(Py_NotImplemented).release().ptr();
}

nb::object beside(PyObject* array, PyObject* other) { return operand_beside(array_in(array), other, false); }

std::optional<Operand> operand_at(ArgumentOf of, nb::handle object, PyObject* other, Where where) {
  std::optional<Operand> operand = to_operand(of, object, where);
  const NDArray* const beside = array_in(other);
  if (operand && operand->is_array && beside && beside->defined())
    operand->array = placed(beside->device(), object, operand->array, where);
  return operand;
}

template <Name name, Binary function> PyObject* binary(PyObject* given_a, PyObject* given_b) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    const Where where = python_call_site();
    const nb::object a = beside(given_b, given_a), b = beside(given_a, given_b);
    constexpr ArgumentOf of = kOperand<name>;
    const std::optional<Operand> x = operand_at(of, a, given_b, where), y = operand_at(of, b, given_a, where);
    if (!x || !y) return not_implemented(of, x ? b : a);
    return compute(function, *x, *y, where).release().ptr();
  });
}

PyObject* ternary_power(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) {
    PyErr_SetString(PyExc_TypeError, "power: an array takes no modulus");
    return nullptr;
  }
  return binary<"power", power>(a, b);
}

NDArray matrix_product(const Operand& a, const Operand& b, Where where) {
  if (!a.is_array || !b.is_array) throw InvalidArgument("matmul: a number; want two arrays");
  return matmul(a.array, b.array, where);
}

template <auto function> PyObject* unary(PyObject* self) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    const Where where = python_call_site();
    const NDArray& x = *array_in(self);
    NDArray result;
    {
      const PushScope scope(x.engine());
      result = function(x, where);
    }
    return wrap(std::move(result)).release().ptr();
  });
}

NDArray same(const NDArray& x, Where) { return x; }

using InPlace = const NDArray& (*)(const NDArray&, const Operand&);

template <Name name, InPlace function> PyObject* in_place(PyObject* self, PyObject* other) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    const Where where = python_call_site();
    constexpr ArgumentOf of = kOperand<name>;
    const std::optional<Operand> value = operand_at(of, beside(self, other), self, where);
    if (!value) return not_implemented(of, other);
    NDArray& x = *array_in(self);
    {
      const CallSite site(where);
      const PushScope scope(x.engine());
      function(x, *value);
    }
    return nb::borrow(self).release().ptr();
  });
}

PyObject* in_place_power(PyObject* self, PyObject* exponent, PyObject*) {
  return in_place<"power_", power_>(self, exponent);
}

PyObject* compare(PyObject* a, PyObject* given, int how) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    const nb::object other = operand_beside(array_in(a), given, true);
    PyObject* b = other.ptr();
    const bool is_text = PyUnicode_Check(b) || PyBytes_Check(b);  // a text is unequal to every array
    if (is_text && (how == Py_EQ || how == Py_NE)) return nb::borrow(Py_NotImplemented).release().ptr();
    switch (how) {
      case Py_LT:
        return binary<"less", less>(a, b);
      case Py_LE:
        return binary<"less_equal", less_equal>(a, b);
      case Py_GT:
        return binary<"greater", greater>(a, b);
      case Py_GE:
        return binary<"greater_equal", greater_equal>(a, b);
      case Py_EQ:
        return binary<"equal", equal>(a, b);
      default:
        return binary<"not_equal", not_equal>(a, b);
    }
  });
}

// The value of an array as a Python number; an error unless the array has one element.
template <class Result> Result value_of(const char* function, PyObject* self) {
  check_one_element(function, *array_in(self));
  const NDArray x = on_cpu(*array_in(self));
  make_readable(x);
  return visit_dtype(x.dtype(), [&]<class T>() { return static_cast<Result>(*x.data<const T>()); });
}

int is_true(PyObject* self) {
  return guarded<int>(-1, [&] {
    const NDArray& x = *array_in(self);
    if (is_floating(x.dtype())) return value_of<double>("bool", self) != 0 ? 1 : 0;
    return value_of<std::int64_t>("bool", self) != 0 ? 1 : 0;
  });
}
PyObject* as_float(PyObject* self) {
  return guarded<PyObject*>(nullptr, [&] { return PyFloat_FromDouble(value_of<double>("float", self)); });
}
PyObject* integer_in(const char* function, PyObject* self) {
  return guarded<PyObject*>(nullptr, [&] {
    if (is_floating(array_in(self)->dtype())) return PyLong_FromDouble(value_of<double>(function, self));
    if (array_in(self)->dtype() == DType::u64)
      return PyLong_FromUnsignedLongLong(value_of<std::uint64_t>(function, self));
    return PyLong_FromLongLong(value_of<std::int64_t>(function, self));
  });
}
PyObject* as_int(PyObject* self) { return integer_in("int", self); }
PyObject* as_index(PyObject* self) {
  if (is_floating(array_in(self)->dtype()) || array_in(self)->dtype() == DType::boolean) {
    PyErr_SetString(PyExc_TypeError, "index: only an array of integers with one element is an index");
    return nullptr;
  }
  return integer_in("index", self);
}

Py_ssize_t length(PyObject* self) {
  const NDArray& x = *array_in(self);
  if (x.ndim() == 0) {
    PyErr_SetString(PyExc_TypeError, "len: an array without axes");
    return -1;
  }
  return static_cast<Py_ssize_t>(x.shape()[0]);
}

PyObject* iterate(PyObject* self) {
  if (array_in(self)->ndim() > 0) return PySeqIter_New(self);
  PyErr_SetString(PyExc_TypeError, "iter: an array without axes");
  return nullptr;
}

PyObject* item_at(PyObject* self, Py_ssize_t index) {
  PyObject* key = PyLong_FromSsize_t(index);
  if (!key) return nullptr;
  const nb::object owned = nb::steal(key);
  return get_item(self, key);
}

template <class Function> void* slot(Function function) { return reinterpret_cast<void*>(function); }

}  // namespace

void check_one_element(const char* function, const NDArray& x) {
  if (x.size() == 1) return;
  raise(PyExc_ValueError, std::string(function) + ": an array of shape " + x.shape().to_string() +
                              "; only one with one element has a value");
}

std::optional<Operand> to_operand(ArgumentOf of, nb::handle object, Where where) {
  if (const NDArray* array = array_in(object)) return Operand(*array, where);
  if (const std::optional<Scalar> value = number(of, object.ptr())) return Operand(*value, where);
  // Accepts NumPy's arrays and scalars. Lists are no operands: [1] + x would be expected to concatenate.
  if (!nb::hasattr(object, "__array_interface__")) return std::nullopt;
  return Operand(to_array(of, object, std::nullopt, where), where);
}

Scalar to_scalar(ArgumentOf of, nb::handle object) {
  if (const std::optional<Scalar> value = number(of, object.ptr())) return *value;
  if (PyIndex_Check(object.ptr())) {
    const nb::object index = nb::steal(PyNumber_Index(object.ptr()));
    if (!index.is_valid()) raise_set();
    return integer(of, index.ptr());
  }
  const bool text = PyUnicode_Check(object.ptr()) || PyBytes_Check(object.ptr());
  PyObject* real = text ? nullptr : PyNumber_Float(object.ptr());
  if (!real) {
    PyErr_Clear();
    refuse_type(of, object, "a number");
  }
  const nb::object owned = nb::steal(real);
  return PyFloat_AsDouble(real);
}

nb::object operand_beside(const NDArray* array, nb::handle other, bool comparison) {
  const int overflow = array ? overflow_of(other.ptr()) : 0;
  if (overflow == 0 || (!comparison && !is_floating(array->dtype()))) return nb::borrow(other);
  return is_floating(array->dtype()) ? float_of(other.ptr())
                                     : nb::steal(PyFloat_FromDouble(HUGE_VAL * overflow));
}

const PyType_Slot* number_slots() {
  static const PyType_Slot slots[] = {
      {Py_nb_add, slot(binary<"add", add>)},
      {Py_nb_subtract, slot(binary<"subtract", subtract>)},
      {Py_nb_multiply, slot(binary<"multiply", multiply>)},
      {Py_nb_true_divide, slot(binary<"divide", divide>)},
      {Py_nb_floor_divide, slot(binary<"floor_divide", floor_divide>)},
      {Py_nb_remainder, slot(binary<"remainder", remainder>)},
      {Py_nb_and, slot(binary<"bitwise_and", bitwise_and>)},
      {Py_nb_or, slot(binary<"bitwise_or", bitwise_or>)},
      {Py_nb_xor, slot(binary<"bitwise_xor", bitwise_xor>)},
      {Py_nb_lshift, slot(binary<"bitwise_left_shift", bitwise_left_shift>)},
      {Py_nb_rshift, slot(binary<"bitwise_right_shift", bitwise_right_shift>)},
      {Py_nb_power, slot(ternary_power)},
      {Py_nb_matrix_multiply, slot(binary<"matmul", matrix_product>)},
      {Py_nb_negative, slot(unary<negative>)},
      {Py_nb_positive, slot(unary<same>)},
      {Py_nb_absolute, slot(unary<heddle::abs>)},
      {Py_nb_invert, slot(unary<bitwise_invert>)},
      {Py_nb_inplace_add, slot(in_place<"add_", (operator+=)>)},
      {Py_nb_inplace_subtract, slot(in_place<"subtract_", (operator-=)>)},
      {Py_nb_inplace_multiply, slot(in_place<"multiply_", (operator*=)>)},
      {Py_nb_inplace_true_divide, slot(in_place<"divide_", (operator/=)>)},
      {Py_nb_inplace_floor_divide, slot(in_place<"floor_divide_", floor_divide_>)},
      {Py_nb_inplace_remainder, slot(in_place<"remainder_", (operator%=)>)},
      {Py_nb_inplace_power, slot(in_place_power)},
      {Py_nb_inplace_and, slot(in_place<"bitwise_and_", (operator&=)>)},
      {Py_nb_inplace_or, slot(in_place<"bitwise_or_", (operator|=)>)},
      {Py_nb_inplace_xor, slot(in_place<"bitwise_xor_", (operator^=)>)},
      {Py_nb_inplace_lshift, slot(in_place<"bitwise_left_shift_", (operator<<=)>)},
      {Py_nb_inplace_rshift, slot(in_place<"bitwise_right_shift_", (operator>>=)>)},
      {Py_nb_bool, slot(is_true)},
      {Py_nb_float, slot(as_float)},
      {Py_nb_int, slot(as_int)},
      {Py_nb_index, slot(as_index)},
      {Py_tp_richcompare, slot(compare)},
      {Py_tp_iter, slot(iterate)},
      {Py_mp_length, slot(length)},
      {Py_mp_subscript, slot(get_item)},
      {Py_mp_ass_subscript, slot(set_item)},
      {Py_sq_length, slot(length)},
      {Py_sq_item, slot(item_at)},
      {Py_bf_getbuffer, slot(get_buffer)},
      {Py_bf_releasebuffer, slot(release_buffer)},
      {0, nullptr}};
  return slots;
}

}  // namespace heddle::python
