// The header of an .npy file: a Python dictionary in text.
#pragma once

#include <string>

#include <heddle/dtype.h>
#include <heddle/error.h>
#include <heddle/shape.h>

namespace heddle::ndarray_detail {

struct NpyHeader {
  DType dtype;
  bool fortran_order;
  Shape shape;
};

// Thrown for a header whose elements are records.
class StructuredDtype : public Error {
 public:
  using Error::Error;
};

// Throws Error saying what is wrong, whatever the text. The element count of the shape fits 63 bits.
NpyHeader parse_npy_header(const std::string& text);

// The bytes before the data: magic, version, length and dictionary, padded to a multiple of 64 bytes.
std::string npy_preamble(const NpyHeader& header);

}  // namespace heddle::ndarray_detail
