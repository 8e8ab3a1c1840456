// What NumPy makes of Python's objects.
#pragma once

#include <optional>

#include "array.h"
#include "errors.h"

namespace heddle::python {

nb::object numpy(const char* name);  // an attribute of the module

// The array of NumPy for a list or a float. Of ints that no dtype of NumPy holds all NumPy makes floats or objects.
nb::object numpy_of(ArgumentOf of, nb::handle given, std::optional<DType> dtype);

}  // namespace heddle::python
