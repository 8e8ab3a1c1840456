// The line of the user's Python program, as the engine's ops and errors name places.
#pragma once

#include <string_view>

#include <nanobind/nanobind.h>

#include <heddle/call_site.h>

namespace heddle::python {

namespace nb = nanobind;

// The Python line that runs now on the calling thread, which has the GIL; in code of this package, that of its caller.
// What it points to lives as long as the process; equal lines are one.
Where python_place();

// A text that lives as long as the process, the same pointer for equal texts: the names of ops. With the GIL. Once there are
// 16 MiB of texts, new ones become "op".
const char* interned(std::string_view text);
const char* interned(nb::handle text);  // a str

}  // namespace heddle::python
