// Memory of GPUs that other libraries have or get by the CUDA array interface, and the numbers of their streams.
#pragma once

#include <heddle/dlpack.h>

#include "arguments.h"
#include "arrays/array.h"

namespace heddle::python {

// A stream by its number in DLPack and in the CUDA array interface. 1: the legacy default stream, 2: that of the thread.
DLPackStream to_stream(ArgumentOf of, nb::handle stream);

nb::object cuda_interface(const NDArray& self);  // the value of __cuda_array_interface__
// An array on the memory of an object with __cuda_array_interface__. It keeps the object.
NDArray from_cuda_interface(nb::handle source, bool copy, Where where);

}  // namespace heddle::python
