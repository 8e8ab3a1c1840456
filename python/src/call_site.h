// The call site in the user's Python program, for the engine's ops and errors.
#pragma once

#include <string_view>

#include <nanobind/nanobind.h>

#include <heddle/call_site.h>

namespace heddle::python {

namespace nb = nanobind;

// The Python line that the calling thread executes; if that line is in the package heddle, the line that
// called the package. Needs the GIL. The result's texts live as long as the process; for equal lines the
// pointer is the same.
Where python_call_site();

// A copy of a text that lives as long as the process, for names of ops; for equal texts the pointer is the
// same. Needs the GIL. Once all copies have 16 MiB, the result for a new text is "op".
const char* interned(std::string_view text);
const char* interned(nb::handle text);  // `text` is a str

}  // namespace heddle::python
