// Sample calls of every operator by name, each with the equivalent plain C++ call.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <heddle/operator_registry.h>

namespace heddle::testing {

// The plain C++ call with the sample's values; returns none if it changes its first argument.
using PlainCall = std::function<OperatorValue(const OperatorValues& values)>;

// One call: positional arguments, then keyword arguments. Elements are small positive integers, which every
// dtype represents; labels and indices are in range.
struct Sample {
  std::string name;
  OperatorValues values;
  std::vector<NamedValue> named;
  PlainCall plain;
};

// At least one sample of each operator without optional arguments and, if it has some, one with all arguments
// and no default values. Samples of operators that take nothing but one array, or two operands, are generated:
// their plain call is by name.
std::vector<Sample> operator_samples();

// Resets the generators of all samples; called before each call.
void restart_generators();

// Checks that the arrays have equal dtypes, shapes, strides and bits; row-sparse arrays are compared as far
// as they are determined.
void check_same(const OperatorValue& a, const OperatorValue& b);
void check_same(const OperatorValues& a, const OperatorValues& b);

// The values with a copy of the first array, for an operator that changes it.
OperatorValues with_copy_of_first(const OperatorValues& values);

}  // namespace heddle::testing
