// Parses the arguments of functions that are bound as METH_FASTCALL | METH_KEYWORDS, because nanobind's
// dispatch is too slow for them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "errors.h"

namespace heddle::python {

// Sorts the arguments of a call into the order of `names`; a missing argument is null. The first `required`
// arguments must be given; the first `positional` arguments may be given without a keyword. Throws TypeError
// as Python does.
void take_arguments(const char* function, PyObject* const* args, Py_ssize_t count, PyObject* keywords,
                    const char* const* names, std::size_t size, std::size_t positional, std::size_t required,
                    PyObject** values);

// Converts a Python int. Throws TypeError for other objects, and InvalidArgument for an int below `least` or
// beyond 64 bits.
std::int64_t int_argument(ArgumentOf of, nb::handle object,
                          std::int64_t least = std::numeric_limits<std::int64_t>::min());

// Converts a number to a double; throws TypeError for anything else, also for texts.
double real_argument(ArgumentOf of, nb::handle object);

// The file's name in the argument `path`, a str, bytes or an object with __fspath__; throws TypeError for anything else.
std::string path_of(const char* function, nb::handle path);

template <std::size_t N> struct Arguments {
  std::array<const char*, N> names;
  std::size_t positional, required;
  std::array<PyObject*, N> take(const char* function, PyObject* const* args, Py_ssize_t count,
                                PyObject* keywords) const {
    std::array<PyObject*, N> values{};
    take_arguments(function, args, count, keywords, names.data(), N, positional, required, values.data());
    return values;
  }
};

using FastCall = PyObject* (*)(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords);
inline PyCFunction as_function(FastCall call) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call));
}

}  // namespace heddle::python
