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
  number,     // an int, float or bool; the operator treats them differently
  real,       // a float, or an int that stands for one
  integer,    // an int
  boolean,    // a bool
  text,       // one of `choices`, or any if there are none
  integers,   // a shape, axes or one number for each axis; an int is a list of one
  dtype,      // a DType, or its name
  device,     // a Device
  generator,  // a Generator of random numbers
};
const char* name_of(ArgumentKind kind);  // "array", "array or number", ...: the words of docs/operators.md

}  // namespace heddle
