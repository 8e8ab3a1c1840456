// The parts of the Python class NDArray, each of which is defined in a file of its own.
#pragma once

#include "arrays/array.h"

namespace heddle::python {

// Whether Python code may only read the array's memory. Inside an op this follows from how the op declared
// the var. Outside, an array that needs a gradient is read-only, since the tape would not know of the change.
bool is_read_only(const NDArray& array);

using ArrayClass = nb::class_<NDArray>;

// Functions for slots of the Python type NDArray: indexing, operators, buffers.
PyObject* get_item(PyObject* self, PyObject* key);
int set_item(PyObject* self, PyObject* key, PyObject* value);
int get_buffer(PyObject* self, Py_buffer* buffer, int flags);
void release_buffer(PyObject* self, Py_buffer* buffer);
const PyType_Slot* number_slots();  // the slots of operators; the list ends with {0, nullptr}

// Sets nonzero bytes to 1 in an array of bools, which is contiguous and not used by ops yet. NumPy's
// view(bool) allows any byte as a bool; C++ allows only 0 and 1.
void normalise_bools(const NDArray& array);

// The array, or a copy on the CPU of one that is on a GPU. Does not wait.
NDArray on_cpu(const NDArray& array);

// Throws ValueError, whose text names the function, unless x has one element.
void check_one_element(const char* function, const NDArray& x);

void bind_memory(ArrayClass& type);  // methods for NumPy, DLPack and pickle
void bind_dlpack(ArrayClass& type);
void bind_from_dlpack(nb::module_& m);

}  // namespace heddle::python
