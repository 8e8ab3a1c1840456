// x[key] and x[key] = value.
#include <algorithm>
#include <vector>

#include <heddle/autograd.h>
#include <heddle/elementwise.h>
#include <heddle/scatter.h>
#include <heddle/shape_ops.h>

#include "array_parts.h"
#include "errors.h"
#include "place.h"

namespace heddle::python {
namespace {

// What a key selects: a view, and after that perhaps entries along one of its axes.
struct Selection {
  NDArray view;
  NDArray indices;  // undefined: none
  int axis = 0;     // of the view, that the indices are of
};

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

// Goes through the parts of a key and narrows the view axis by axis.
class Selector {
 public:
  Selector(const NDArray& x, Where where)
      : x_(x), where_(where), shape_(x.shape()), strides_(x.strides()), offset_(x.offset()) {}

  Selection select(PyObject* key) {
    if (!PyTuple_Check(key)) {
      one(key, 1);
    } else {
      const Py_ssize_t size = PyTuple_Size(key);
      int axes = 0;
      for (Py_ssize_t i = 0; i < size; ++i) {
        PyObject* part = PyTuple_GetItem(key, i);
        axes += part != Py_None && part != Py_Ellipsis;
      }
      for (Py_ssize_t i = 0; i < size; ++i) one(PyTuple_GetItem(key, i), axes);
    }
    while (axis_ < shape_.size()) keep();
    if (element_count(new_shape_) == 0) offset_ = x_.offset();  // what has no elements may begin anywhere
    Selection selection{x_.view(new_shape_, new_strides_, offset_, where_), indices_, indices_axis_};
    return selection;
  }

 private:
  void one(PyObject* part, int axes) {
    if (part == Py_None) return add(1, 0);
    if (part == Py_Ellipsis) {
      if (ellipsis_) raise(PyExc_IndexError, "an index may have one ellipsis ('...')");
      ellipsis_ = true;
      const int rest = shape_.size() - axes;
      for (int i = 0; i < rest; ++i) keep();
      return;
    }
    if (PyBool_Check(part)) raise(PyExc_TypeError, "a bool is no index");
    if (axis_ >= shape_.size()) {
      raise(PyExc_IndexError, "too many indices for an array of shape " + shape_.to_string());
    }
    if (is_int(part)) return integer(to_int(part));
    if (PySlice_Check(part)) return slice(part);
    array(part);
  }

  void integer(std::int64_t index) {
    const std::int64_t n = shape_[axis_];
    if (index < -n || index >= n) {
      raise(PyExc_IndexError, "index " + std::to_string(index) + " is out of range for axis " +
                                  std::to_string(axis_) + " of shape " + shape_.to_string());
    }
    offset_ += (index < 0 ? index + n : index) * strides_[axis_];
    ++axis_;
  }

  void slice(PyObject* part) {
    Py_ssize_t begin = 0, end = 0, step = 0;
    if (PySlice_Unpack(part, &begin, &end, &step) < 0) raise_set();
    const Py_ssize_t count =
        PySlice_AdjustIndices(static_cast<Py_ssize_t>(shape_[axis_]), &begin, &end, step);
    if (count > 0) offset_ += begin * strides_[axis_];
    add(count, strides_[axis_] * step);
    ++axis_;
  }

  void array(PyObject* part) {
    const bool known = array_in(part) || PyList_Check(part) || nb::hasattr(part, "__array_interface__");
    if (!known) {
      raise(PyExc_TypeError,
            "an array is indexed by ints, slices, '...', None and arrays of integers, not by a " +
                kind_of(part));
    }
    NDArray indices = to_array({"NDArray.__getitem__", "an index"}, part, std::nullopt, where_);
    if (indices.dtype() == DType::boolean) {
      raise(PyExc_TypeError, "a mask is the whole index: x[mask], x[mask] = value");
    }
    if (is_floating(indices.dtype())) raise(PyExc_IndexError, "an array of floats is no index");
    if (indices.dtype() != DType::i32 && indices.dtype() != DType::i64) {
      const ReleaseGil released;
      indices = indices.astype(DType::i64, where_);
    }
    if (indices_.defined()) raise(PyExc_IndexError, "an index may have one array");
    indices_ = indices;
    indices_axis_ = new_shape_.size();
    keep();
  }

  void keep() {
    add(shape_[axis_], strides_[axis_]);
    ++axis_;
  }
  void add(std::int64_t size, std::int64_t stride) {
    new_shape_.push_back(size);
    new_strides_.push_back(stride);
  }

  const NDArray& x_;
  Where where_;
  const Dims &shape_, &strides_;
  std::int64_t offset_;
  Dims new_shape_, new_strides_;
  int axis_ = 0;
  bool ellipsis_ = false;
  NDArray indices_;
  int indices_axis_ = 0;
};

bool same_elements(const NDArray& a, const NDArray& b) {
  return a.storage() == b.storage() && a.offset() == b.offset() && a.shape() == b.shape() &&
         a.strides() == b.strides() && a.dtype() == b.dtype();
}

// The key as a mask, if it is an array of bools, also NumPy's, or a list of some; else undefined.
NDArray mask_in(PyObject* key, Where where) {
  if (const NDArray* array = array_in(key)) return array->dtype() == DType::boolean ? *array : NDArray();
  if (!PyList_Check(key) && !nb::hasattr(key, "__array_interface__")) return {};
  NDArray made = to_array({"NDArray.__setitem__", "the index"}, key, std::nullopt, where);
  return made.dtype() == DType::boolean ? made : NDArray();
}

constexpr ArgumentOf kValue{"NDArray.__setitem__", "the value"};

void assign(const NDArray& target, PyObject* value, Where where) {
  if (const NDArray* array = array_in(value)) {
    if (same_elements(target, *array)) return;  // what x[key] += y ends with
    const ReleaseGil released;
    return target.assign(*array, where);
  }
  const std::optional<Operand> operand = to_operand(kValue, value, where);
  if (operand && !operand->is_array) {
    const Scalar scalar = operand->scalar;
    const ReleaseGil released;
    return operators_detail::fill_with(target, scalar, where);
  }
  const NDArray array = to_array(kValue, value, std::nullopt, where);
  const ReleaseGil released;
  target.assign(array, where);
}

void assign_masked(const NDArray& target, const NDArray& mask, PyObject* value, Where where) {
  if (mask.shape() != target.shape()) {
    raise(PyExc_IndexError, "a mask of shape " + mask.shape().to_string() + " for an array of shape " +
                                target.shape().to_string());
  }
  const std::optional<Operand> operand = to_operand(kValue, value, where);
  if (!operand || (operand->is_array && operand->array.ndim() > 0)) {
    raise(PyExc_TypeError, "x[mask] = value: value is a number; for an array use where()");
  }
  const ReleaseGil released;
  // What is assigned needs a gradient if the value does: assign() refuses that, and a target on a tape.
  const Operand old(target.detach(), where);
  target.assign(heddle::where(mask.detach(), *operand, old, where), where);
}

// The elements where the mask is true. It may leave out x's last axes, which are then selected as a whole.
NDArray masked(const NDArray& x, const NDArray& mask, Where where) {
  const Shape& shape = x.shape();
  const bool fits =
      mask.ndim() <= x.ndim() && std::equal(mask.shape().begin(), mask.shape().end(), shape.begin());
  if (!fits || mask.ndim() == 0) {
    raise(PyExc_IndexError,
          "a mask of shape " + mask.shape().to_string() + " for an array of shape " + shape.to_string());
  }
  const ReleaseGil released;
  if (mask.ndim() == x.ndim()) return masked_select(x, mask, where);
  Shape rows{mask.size()};
  for (int d = mask.ndim(); d < x.ndim(); ++d) rows.push_back(shape[d]);
  return take(reshape(x, rows, where), nonzero(reshape(mask, {-1}, where), where)[0], 0, where);
}

// A number as an array of no axes, of the target's dtype.
NDArray filled(const NDArray& target, Scalar value, Where where) {
  const EngineScope scope(target.engine());
  const NDArray one({}, target.dtype(), target.device());
  operators_detail::fill_with(one, value, where);
  return one;
}

// Copies values to the entries of a view that an array of indices names.
void assign_entries(const Selection& to, PyObject* value, Where where) {
  const std::optional<Operand> operand = to_operand(kValue, value, where);
  const bool number = operand && !operand->is_array;
  NDArray values;
  if (!number) values = operand ? operand->array : to_array(kValue, value, std::nullopt, where);
  const ReleaseGil released;
  const NDArray target = to.view.detach();
  if (number) values = filled(target, operand->scalar, where);
  Shape shape, rows = target.shape();
  for (int d = 0; d < to.axis; ++d) shape.push_back(rows[d]);
  for (const std::int64_t size : to.indices.shape()) shape.push_back(size);
  for (int d = to.axis + 1; d < rows.size(); ++d) shape.push_back(rows[d]);
  rows[to.axis] = to.indices.size();
  values = reshape(broadcast_to(values, shape, where), rows, where);
  to.view.assign(index_copy(target, reshape(to.indices, {-1}, where), values, to.axis, where), where);
}

}  // namespace

PyObject* get_item(PyObject* self, PyObject* key) {
  return guarded<PyObject*>(nullptr, [&]() -> PyObject* {
    const Where where = python_place();
    if (const NDArray mask = mask_in(key, where); mask.defined())
      return wrap(masked(*array_in(self), mask, where)).release().ptr();
    Selection selection = Selector(*array_in(self), where).select(key);
    if (selection.indices.defined()) {
      const ReleaseGil released;
      selection.view = take(selection.view, selection.indices, selection.axis, where);
    }
    return wrap(std::move(selection.view)).release().ptr();
  });
}

int set_item(PyObject* self, PyObject* key, PyObject* value) {
  return guarded<int>(-1, [&] {
    const Where where = python_place();
    if (!value) raise(PyExc_TypeError, "elements of an array cannot be deleted");
    const NDArray& x = *array_in(self);
    if (const NDArray mask = mask_in(key, where); mask.defined())
      return assign_masked(x, mask, value, where), 0;
    const Selection selection = Selector(x, where).select(key);
    if (selection.indices.defined())
      assign_entries(selection, value, where);
    else
      assign(selection.view, value, where);
    return 0;
  });
}

}  // namespace heddle::python
