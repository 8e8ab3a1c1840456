// Conversion of Python objects by NumPy.
#pragma once

#include <optional>

#include "arrays/array.h"
#include "errors.h"

namespace heddle::python {

nb::object numpy(const char* name);  // an attribute of the module numpy

// Makes a NumPy array of a list or a float. NumPy itself would convert ints that fit no common integer dtype
// to floats or objects; here such ints are converted to `dtype` or refused.
nb::object numpy_of(ArgumentOf of, nb::handle given, std::optional<DType> dtype);

}  // namespace heddle::python
