// Calls of every operator by name, each beside the plain call in C++ that it stands for.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <heddle/operator_registry.h>

namespace heddle::testing {

// What the plain call gives, or nothing if it changes its first argument. `values` are those of the sample.
using PlainCall = std::function<OperatorValue(const OperatorValues& values)>;

// One call: the first arguments, then those by keyword. Elements are small whole numbers above 0, so that every dtype holds
// them, and labels and indices are in range.
struct Sample {
  std::string name;
  OperatorValues values;
  std::vector<NamedValue> named;
  PlainCall plain;
};

// Of each operator at least one with nothing that could be left out and, if something could, one with all arguments and other
// values than the defaults. Operators that take one array and nothing else need no sample: one is made, whose plain call is by name.
std::vector<Sample> operator_samples();

// Puts the generators of all samples where they began: to be called before each call.
void restart_generators();

// The arrays have equal dtypes, shapes, strides and bits; as far as row-sparse ones are determined.
void check_same(const OperatorValue& a, const OperatorValue& b);
void check_same(const OperatorValues& a, const OperatorValues& b);

// The values with a copy of the first one, an array, for an operator that changes it.
OperatorValues with_copy_of_first(const OperatorValues& values);

}  // namespace heddle::testing
