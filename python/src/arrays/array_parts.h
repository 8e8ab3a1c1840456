// The parts of the class NDArray.
#pragma once

#include "arrays/array.h"

namespace heddle::python {

using ArrayClass = nb::class_<NDArray>;

// Slots of the Python type: operators, indexing, buffers.
PyObject* get_item(PyObject* self, PyObject* key);
int set_item(PyObject* self, PyObject* key, PyObject* value);
int get_buffer(PyObject* self, Py_buffer* buffer, int flags);
void release_buffer(PyObject* self, Py_buffer* buffer);
const PyType_Slot* number_slots();  // ends with {0, nullptr}

// Sets nonzero bytes to 1 in a contiguous array of bools that no op uses yet: NumPy's view(bool) allows any
// byte as a bool, C++ does not.
void normalise_bools(const NDArray& array);

// Throws ValueError, whose text names the function, unless x has one element.
void check_one_element(const char* function, const NDArray& x);

void bind_memory(ArrayClass& type);  // NumPy, DLPack, pickle
void bind_from_dlpack(nb::module_& m);

}  // namespace heddle::python
