// Keys of stores and optimizers: an int or a str.
#pragma once

#include <heddle/key.h>

#include "interpreter.h"

namespace heddle::python {

Key to_key(nb::handle object);  // throws TypeError for anything else

}  // namespace heddle::python
