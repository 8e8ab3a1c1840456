// Reads .npy data from a file, an archive or memory.
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
  void read(void* target, std::size_t bytes);             // throws Error if fewer bytes are left
  [[noreturn]] void fail(const std::string& what) const;  // throws Error that names the file

 protected:
  void set_left(std::size_t bytes) { left_ = bytes; }
  virtual std::string title() const = 0;  // the text that errors begin with
  virtual void read_all(void* target, std::size_t bytes) = 0;

 private:
  std::size_t left_ = 0;
};

// Reads the header and checks that the number of bytes left is that of its shape.
NpyHeader read_npy_header(ByteSource& source);
// Reads header and data; the array is in C order.
NDArray read_npy(ByteSource& source, Device device);
// An array on `data`, which has the bytes that the header describes; it is in C order, as a view if the
// header says Fortran order.
NDArray npy_in_memory(const NpyHeader& header, std::shared_ptr<std::byte> data);

}  // namespace heddle::ndarray_detail
