// Error messages of calls with wrong arguments.
#pragma once

#include "interpreter.h"

namespace heddle::python {

// Makes the module's functions report which argument is wrong, instead of nanobind's list of overloads.
void explain_wrong_calls(nb::module_& m);

}  // namespace heddle::python
