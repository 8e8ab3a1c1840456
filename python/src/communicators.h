// Access to communicators for other bindings.
#pragma once

#include <memory>

#include <heddle/communicator.h>

namespace heddle::python {

// A shared_ptr to a communicator of a Python object, for C++ code that keeps it. Any thread may destroy it
// without the GIL. nanobind's shared_ptr of an argument takes the GIL for that: CPython before 3.14 ends a
// thread that takes the GIL while the interpreter ends, which in the middle of C++ code aborts the process.
std::shared_ptr<Communicator> owner_of(const Communicator& ranks);

}  // namespace heddle::python
