// What a call with wrong arguments raises.
#pragma once

#include "interpreter.h"

namespace heddle::python {

// From now on functions and methods of the module say which argument is wrong, in place of nanobind's list of overloads.
void explain_wrong_calls(nb::module_& m);

}  // namespace heddle::python
