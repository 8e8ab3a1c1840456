// An .npy file, wherever its bytes come from.
#pragma once

#include <cstddef>
#include <string>

#include <heddle/ndarray.h>

#include "files/npy_header.h"

namespace heddle::ndarray_detail {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  std::size_t left() const { return left_; }
  void read(void* target, std::size_t bytes);             // fails if fewer are left
  [[noreturn]] void fail(const std::string& what) const;  // throws Error that names the file

 protected:
  void set_left(std::size_t bytes) { left_ = bytes; }
  virtual std::string title() const = 0;  // what errors begin with
  virtual void read_all(void* target, std::size_t bytes) = 0;

 private:
  std::size_t left_ = 0;
};

// Reads the header and checks that the bytes left are those of its shape.
NpyHeader read_npy_header(ByteSource& source);
// Reads all: the array, in C order.
NDArray read_npy(ByteSource& source, Device device);
// memory[offset...] holds what the header describes; the array has C order, as a view if the file has Fortran's.
NDArray npy_in_memory(const NpyHeader& header, std::shared_ptr<std::byte> data);

}  // namespace heddle::ndarray_detail
