// Access to the communicators of Python objects, for bindings in other files.
#pragma once

#include <memory>

#include <heddle/communicator.h>

namespace heddle::python {

// A shared_ptr to the communicator of a Python object, for C++ code that keeps the communicator. Any thread
// may destroy this pointer without the GIL. The shared_ptr that nanobind makes for an argument takes the GIL
// when it is destroyed, and CPython before 3.14 ends a thread that does so while the interpreter ends: in the
// middle of C++ code this aborts the process.
std::shared_ptr<Communicator> owner_of(const Communicator& ranks);

}  // namespace heddle::python
