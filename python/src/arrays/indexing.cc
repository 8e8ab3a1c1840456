// x[key] and x[key] = value.
#include <algorithm>
#include <vector>

#include <heddle/indexing.h>

#include "arrays/array_parts.h"
#include "arrays/devices.h"
#include "call_site.h"
#include "errors.h"

namespace heddle::python {
namespace {

constexpr const char* kName = "x[...]";  // the name of indexing in error messages

std::int64_t to_int(PyObject* object) {
  const Py_ssize_t value = PyNumber_AsSsize_t(object, PyExc_IndexError);
  if (value == -1 && PyErr_Occurred()) raise_set();
  return value;
}

bool is_int(PyObject* object) {
  if (PyBool_Check(object)) return false;
  if (const NDArray* array = array_in(object)) {
    return array->ndim() == 0 && !is_floating(array->dtype()) && array->dtype() != DType::boolean;
  }
  return PyIndex_Check(object) && !nb::hasattr(object, "__len__");
}

AxisKey slice(PyObject* part) {
  Py_ssize_t begin = 0, end = 0, step = 0;
  if (PySlice_Unpack(part, &begin, &end, &step) < 0) raise_set();
  return Slice{begin, end, step};
}

// Key arrays are on the device of x: lists and arrays of NumPy are copied there.
IndexKey key_of(const NDArray& x, PyObject* part, Where where) {
  if (part == Py_None) return kNewAxis;
  if (part == Py_Ellipsis) return kEllipsis;
  if (PyBool_Check(part)) return full({}, part == Py_True, DType::boolean, x.device(), where);
  if (is_int(part)) return to_int(part);
  if (PySlice_Check(part)) return slice(part);
  if (array_in(part) || PyList_Check(part) || nb::hasattr(part, "__array_interface__")) {
    // An empty list is a list of indices here; NumPy would make an f64 array of it.
    const bool empty = PyList_Check(part) && PyList_Size(part) == 0;
    const NDArray keys =
        to_array({kName, "a key"}, part, empty ? std::optional(DType::i64) : std::nullopt, where);
    return placed(x.device(), part, keys, where);
  }
  refuse_type({kName, "a key"}, part, "ints, slices, '...', None, and arrays of integers or bools");
}

std::vector<IndexKey> keys_of(const NDArray& x, PyObject* key, Where where) {
  if (!PyTuple_Check(key)) return {key_of(x, key, where)};
  std::vector<IndexKey> keys;
  for (Py_ssize_t i = 0; i < PyTuple_Size(key); ++i)
    keys.push_back(key_of(x, PyTuple_GetItem(key, i), where));
  return keys;
}

bool has_array(const std::vector<IndexKey>& keys) {
  return std::any_of(keys.begin(), keys.end(), [](const IndexKey& key) { return key.is_array; });
}

NDArray view_at(const NDArray& x, const std::vector<IndexKey>& keys, Where where) {
  std::vector<AxisKey> axes;
  for (const IndexKey& key : keys) axes.push_back(key.axis);
  return ndarray_detail::in_name_of(kName, [&] { return x.keyed(axes, where); });
}

bool same_elements(const NDArray& a, const NDArray& b) {
  return a.storage() == b.storage() && a.offset() == b.offset() && a.shape() == b.shape() &&
         a.strides() == b.strides() && a.dtype() == b.dtype();
}

constexpr ArgumentOf kValue{kName, "the value"};

void assign(const NDArray& target, PyObject* value, Where where) {
  if (const NDArray* array = array_in(value)) {
    // Python ends x[key] += y by assigning the changed view to x[key], where it already is.
    if (same_elements(target, *array)) return;
    const ReleaseGil released;
    return ndarray_detail::in_name_of(kName, [&] { target.assign(*array, where); });
  }
  const std::optional<Operand> operand = to_operand(kValue, value, where);
  if (operand && !operand->is_array) {
    const Scalar scalar = operand->scalar;
    const ReleaseGil released;
    return ndarray_detail::in_name_of(kName, [&] { target.fill(scalar, where); });
  }
  const NDArray array = to_array_for(kValue, value, target.dtype(), where);
  const ReleaseGil released;
  ndarray_detail::in_name_of(kName, [&] { target.assign(array, where); });
}

void assign_chosen(const NDArray& x, const std::vector<IndexKey>& keys, PyObject* value, Where where) {
  std::optional<Operand> operand = to_operand(kValue, value, where);
  if (!operand) operand.emplace(to_array_for(kValue, value, x.dtype(), where), where);
  if (operand->is_array) operand->array = placed(x.device(), value, operand->array, where);
  const ReleaseGil released;
  ndarray_detail::in_name_of(kName, [&] { Chosen(x, keys, where) = *operand; });
}

}  // namespace

PyObject* get_item(PyObject* self, PyObject* key) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    const Where where = python_call_site();
    const NDArray& x = *array_in(self);
    const std::vector<IndexKey> keys = keys_of(x, key, where);
    if (!has_array(keys)) return wrap(view_at(x, keys, where)).release().ptr();
    NDArray chosen;
    {
      const ReleaseGil released;
      chosen = ndarray_detail::in_name_of(kName, [&] { return NDArray(Chosen(x, keys, where)); });
    }
    return wrap(std::move(chosen)).release().ptr();
  });
}

int set_item(PyObject* self, PyObject* key, PyObject* value) {
  return guarded<int>(-1, [&] {
    const Where where = python_call_site();
    if (!value) raise(PyExc_TypeError, "elements of an array cannot be deleted");
    const NDArray& x = *array_in(self);
    const std::vector<IndexKey> keys = keys_of(x, key, where);
    if (has_array(keys))
      assign_chosen(x, keys, value, where);
    else
      assign(view_at(x, keys, where), value, where);
    return 0;
  });
}

}  // namespace heddle::python
