// Keys of stores and optimizers: an int or a str.
#pragma once

#include <heddle/key.h>

#include "interpreter.h"

namespace heddle::python {

// Converts the argument `key`; throws TypeError for an object of another type.
Key to_key(const char* function, nb::handle object);

}  // namespace heddle::python
