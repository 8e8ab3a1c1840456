// The kinds of arguments that operators have.
#pragma once

#include <cstdint>

namespace heddle {

enum class ArgumentKind : std::uint8_t {
  array,
  array_or_number,      // an int, float or bool beside arrays is a Scalar (elementwise.h)
  array_or_row_sparse,  // of either kind
  arrays,               // a list
  row_sparse,
  row_sparse_list,
  number,     // int, float or bool, which differ
  real,       // a float, or an int that stands for one
  integer,    // an int
  boolean,    // a bool
  text,       // one of `choices`, or any if there are none
  integers,   // a shape, axes or one number for each axis; an int is a list of one
  dtype,      // a DType, or its name
  device,     // a Device
  generator,  // of random numbers
};
const char* name_of(ArgumentKind kind);  // "array", "array or number", ... as docs/operators.md has them

}  // namespace heddle
