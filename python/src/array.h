// Arrays as Python objects, and what of Python becomes an array, a shape, a dtype or a device.
#pragma once

#include <optional>
#include <string>

#include <heddle/elementwise.h>
#include <heddle/ndarray.h>
#include <heddle/row_sparse.h>

#include "errors.h"

namespace heddle::python {

// A dtype as a Python object: heddle.f32 and so on, one object each.
struct PythonDType {
  DType value;
};

nb::object wrap(NDArray array);        // a new object
NDArray* array_in(nb::handle object);  // null if it is no heddle.NDArray
std::string kind_of(nb::handle object);

// All throw TypeError for an object of another kind, and InvalidArgument for a value that there is not.
DType to_dtype(ArgumentOf of, nb::handle object);  // a dtype, its name, a dtype of NumPy, or float, int, bool
Device to_device(ArgumentOf of, nb::handle object);  // a device, or its name: "cpu", "cpu(1)", "gpu(0)"
Dims to_dims(ArgumentOf of, nb::handle object);      // an int, or a tuple or list of ints
Scalar to_scalar(ArgumentOf of, nb::handle object);  // a number, also NumPy's; no text
nb::object from_dtype(DType dtype);
nb::object from_dims(const Dims& dims);

// A number, an array, or what NumPy makes an array of. Empty if it is none of these.
std::optional<Operand> to_operand(ArgumentOf of, nb::handle object, Where where);
// The operand beside `array`, which may be null. An int beyond 64 bits is a float beside floats, as in Python, and for a
// comparison beyond all integers.
nb::object operand_beside(const NDArray* array, nb::handle other, bool comparison);

// The array that an object of Python stands for: the object itself if it is a heddle.NDArray of that dtype, else a new array of
// what NumPy makes of it. Without a dtype Python's own floats become `floats`; in a list that holds an f64 array they become f64.
NDArray to_array(ArgumentOf of, nb::handle object, std::optional<DType> dtype, Where where,
                 DType floats = DType::f32);
// Whether it is an f64 array, also another package's, or a list with one in it. Python's own floats are none.
bool holds_f64(nb::handle object);
// What is assigned to elements of that dtype: as to_array, but Python's own numbers keep the digits that these hold.
NDArray to_array_for(ArgumentOf of, nb::handle object, DType target, Where where);

// Blocks until the array can be read here, or also written: at once inside an op that has declared its var.
void make_readable(const NDArray& array);
void make_writable(const NDArray& array);

nb::object to_numpy(nb::handle array, bool copy);

void bind_types(nb::module_& m);   // dtypes and devices
void bind_arrays(nb::module_& m);  // the class NDArray

}  // namespace heddle::python
