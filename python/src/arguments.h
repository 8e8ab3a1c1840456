// The arguments of functions that are called too often for nanobind's general way: METH_FASTCALL | METH_KEYWORDS.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "errors.h"

namespace heddle::python {

// Puts the arguments of a call in the order of `names`; what was not given is null. The first `required` must be given, the
// first `positional` may be without a keyword. Throws TypeError, as Python does.
void take_arguments(const char* function, PyObject* const* args, Py_ssize_t count, PyObject* keywords,
                    const char* const* names, std::size_t size, std::size_t positional, std::size_t required,
                    PyObject** values);

// An int, of at least `least`; throws TypeError and InvalidArgument.
std::int64_t int_argument(ArgumentOf of, nb::handle object,
                          std::int64_t least = std::numeric_limits<std::int64_t>::min());

// A number as a float; throws TypeError for what is none, texts too.
double real_argument(ArgumentOf of, nb::handle object);

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
