// Keys of stores and optimizers: an int or a str.
#pragma once

#include <heddle/key.h>

#include "interpreter.h"

namespace heddle::python {

Key to_key(const char* function,
           nb::handle object);  // of the argument `key`; throws TypeError for anything else

}  // namespace heddle::python
