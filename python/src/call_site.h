// The call site in the user's Python program, for the engine's ops and errors.
#pragma once

#include <string_view>

#include <nanobind/nanobind.h>

#include <heddle/call_site.h>

namespace heddle::python {

namespace nb = nanobind;

// The Python line that the calling thread executes; in code of this package, the line of its caller. Called
// with the GIL. The result's texts live as long as the process; equal lines have the same pointer.
Where python_call_site();

// A copy that lives as long as the process, for names of ops; equal texts give the same pointer. Called with
// the GIL. Beyond 16 MiB of texts new ones become "op".
const char* interned(std::string_view text);
const char* interned(nb::handle text);  // a str

}  // namespace heddle::python
