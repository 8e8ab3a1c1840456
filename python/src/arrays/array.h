// Arrays as Python objects, and conversions of Python objects to arrays, shapes, dtypes and devices.
#pragma once

#include <optional>
#include <string>

#include <heddle/elementwise.h>
#include <heddle/ndarray.h>
#include <heddle/row_sparse.h>

#include "errors.h"

namespace heddle::python {

// A dtype as a Python object, such as heddle.f32. There is one object for each dtype.
struct PythonDType {
  DType value;
};

nb::object wrap(NDArray array);        // makes a new Python object of class NDArray
NDArray* array_in(nb::handle object);  // the array of a Python object; null if it is no heddle.NDArray
std::string kind_of(nb::handle object);

// The to_... functions throw TypeError for objects of other types, and InvalidArgument for unknown values.
DType to_dtype(ArgumentOf of, nb::handle object);  // a dtype, its name, a dtype of NumPy, or float, int, bool
Device to_device(ArgumentOf of, nb::handle object);  // a device, or its name: "cpu", "cpu(1)", "gpu(0)"
Dims to_dims(ArgumentOf of, nb::handle object);      // an int, or a tuple or list of ints
Scalar to_scalar(ArgumentOf of, nb::handle object);  // a number of Python or NumPy
nb::object from_dtype(DType dtype);
nb::object from_dims(const Dims& dims);

// Converts the operand of an operator: a number, an array, or an object with NumPy's array interface. Empty
// for other objects.
std::optional<Operand> to_operand(ArgumentOf of, nb::handle object, Where where);
// Converts `other`, an operand beside `array` (null: no array), if it is an int beyond 64 bits: to a float if
// the array is floating, as in Python; in a comparison with an integer array, to a value beyond all integers.
// Any other operand is returned as it is.
nb::object operand_beside(const NDArray* array, nb::handle other, bool comparison);

// Converts an object to an array. A heddle.NDArray of that dtype is returned itself; otherwise NumPy makes a
// copy. Without a dtype Python's floats become `floats`, or f64 in a list that contains an f64 array.
NDArray to_array(ArgumentOf of, nb::handle object, std::optional<DType> dtype, Where where,
                 DType floats = DType::f32);
// Whether the object is an f64 array, also of another package, or a list that contains one.
bool holds_f64(nb::handle object);
// Like to_array, for a value that is assigned to elements of dtype `target`: Python's own numbers keep all
// digits that `target` can hold.
NDArray to_array_for(ArgumentOf of, nb::handle object, DType target, Where where);

// make_readable blocks until the thread may read the array, make_writable until it may read and write. Inside
// an op that declared the array's var they return at once.
void make_readable(const NDArray& array);
void make_writable(const NDArray& array);

nb::object to_numpy(nb::handle array, bool copy);

void bind_types(nb::module_& m);   // dtypes and devices
void bind_arrays(nb::module_& m);  // the class NDArray

}  // namespace heddle::python
