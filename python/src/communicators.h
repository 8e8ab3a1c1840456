// Communicators as other bindings get them.
#pragma once

#include <memory>

#include <heddle/communicator.h>

namespace heddle::python {

// The owner of a communicator that Python has, for C++ code that keeps it. Any thread may drop it. nanobind's shared_ptr of an
// argument takes the GIL for that: CPython before 3.14 ends a thread that does so while the interpreter ends, which in the
// middle of C++ code aborts the process.
std::shared_ptr<Communicator> owner_of(const Communicator& ranks);

}  // namespace heddle::python
