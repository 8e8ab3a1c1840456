// Sample calls of every operator by name, each with the equivalent plain C++ call.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <heddle/operator_registry.h>

namespace heddle::testing {

// The plain C++ call that is equivalent to a call by name. Takes the sample's values; returns an empty value
// if the operator changes its first argument.
using PlainCall = std::function<OperatorValue(const OperatorValues& values)>;

// One sample call of an operator, with positional arguments (`values`) and keyword arguments (`named`).
// Elements are small positive integers, which every dtype represents; labels and indices are in range.
struct Sample {
  std::string name;
  OperatorValues values;
  std::vector<NamedValue> named;
  PlainCall plain;
};

// The samples of all operators. Each operator has a sample without optional arguments and, if it has optional
// arguments, one with all arguments at values other than the defaults. For operators that take nothing but
// one array, or two operands, samples may be generated; their plain call is a call by name.
std::vector<Sample> operator_samples();

// Resets the generators of all samples; called before each call.
void restart_generators();

// Checks that the arrays have equal dtypes, shapes, strides and bits; row-sparse arrays are compared as far
// as they are determined.
void check_same(const OperatorValue& a, const OperatorValue& b);
void check_same(const OperatorValues& a, const OperatorValues& b);

// A copy of the arguments with a copy of the first array, for an operator that changes that array.
OperatorValues with_copy_of_first(const OperatorValues& values);

}  // namespace heddle::testing
