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
  const PythonGenerator* generator;  // the generator to lock during the call; null: none of the values is one
};

// Converts the first `count` arguments. A null object gives the argument's default, and so does None where the argument
// takes None. `comparison`: an int beyond 64 bits may stand beside an array. Throws TypeError and ValueError naming the
// argument.
CallValues call_values(const FunctionInfo& info, PyObject* const* given, std::size_t count, Where where,
                       bool comparison = false);

// Calls compute() without the GIL, and with the generator's lock.
template <class Compute> void without_gil(const PythonGenerator* generator, Compute&& compute) {
  if (generator) return generator->call([&](Generator&) { compute(); });
  const ReleaseGil released;
  compute();
}

std::string parameters_text(const FunctionInfo& info);  // "x, axis=-1", as Python writes it
// For the generator of the type stubs: (name, kind, choices, default or None) of each argument.
nb::list described_arguments(const FunctionInfo& info);

}  // namespace heddle::python
