// The kinds of arguments that operators have.
#pragma once

#include <cstdint>

namespace heddle {

enum class ArgumentKind : std::uint8_t {
  array,
  array_or_number,      // an int, float or bool beside arrays is a Scalar (elementwise.h)
  array_or_row_sparse,  // a dense or a row-sparse array
  arrays,               // a list of arrays
  row_sparse,
  row_sparse_list,
  number,     // an int, float or bool, which the operator tells apart
  real,       // a float, or an int that stands for one
  integer,    // an int
  boolean,    // a bool
  text,       // a string: one of the argument's `choices`, or any string if it has none
  integers,   // a list of ints: a shape, axes or one int for each axis; an int is a list of one, and one of
              // the argument's `choices` may stand for it
  dtype,      // a DType, or its name
  device,     // a Device
  generator,  // a Generator of random numbers
};
const char* name_of(ArgumentKind kind);  // "array", "array or number", ...: the words of docs/operators.md

}  // namespace heddle
