// Calls of functions that a registry describes: operators and layers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <heddle/function_info.h>

#include "objects.h"

namespace heddle::python {

struct CallValues {
  OperatorValues values;
  const PythonGenerator* generator;  // the generator among the values, to lock during the call; may be null
};

// Converts the first `count` arguments. An argument has its default if its object is null, or None where it
// takes None. `comparison` allows an int beyond 64 bits beside an array. Throws TypeError or ValueError that
// names the argument.
CallValues call_values(const FunctionInfo& info, PyObject* const* given, std::size_t count, Where where,
                       bool comparison = false);

// Calls compute() without the GIL, and with the lock of the generator unless that is null.
template <class Compute> void without_gil(const PythonGenerator* generator, Compute&& compute) {
  if (generator) return generator->call([&](Generator&) { compute(); });
  const ReleaseGil released;
  compute();
}

std::string parameters_text(const FunctionInfo& info);  // the parameters as Python writes them: "x, axis=-1"
// For the generator of the type stubs: (name, kind, choices, default or None) of each argument.
nb::list described_arguments(const FunctionInfo& info);

}  // namespace heddle::python
