// Conversion of Python objects by NumPy.
#pragma once

#include <optional>

#include "arrays/array.h"
#include "errors.h"

namespace heddle::python {

nb::object numpy(const char* name);  // an attribute of the module numpy

// The NumPy array of a list or a float. NumPy would convert ints that share no integer dtype to floats or
// objects; these are converted or refused here.
nb::object numpy_of(ArgumentOf of, nb::handle given, std::optional<DType> dtype);

}  // namespace heddle::python
