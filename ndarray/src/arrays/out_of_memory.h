// The device whose memory an OutOfMemory is about.
#pragma once

#include <heddle/device.h>

namespace heddle::ndarray_detail {

// As long as the object lives, an OutOfMemory that this thread makes tells the memory of that device; else that of the CPU.
class NoMemoryOn {
 public:
  explicit NoMemoryOn(Device device);
  ~NoMemoryOn();
  NoMemoryOn(const NoMemoryOn&) = delete;
  NoMemoryOn& operator=(const NoMemoryOn&) = delete;
};

}  // namespace heddle::ndarray_detail
