// The dtype, device and engine of a new array, out of heddle_array_options.
#pragma once

#include "array_handle.h"

namespace heddle::c {

class NewArray {
 public:
  NewArray(const heddle_array_options* options, const char* call);
  Engine& engine() const { return *engine_; }
  const std::shared_ptr<Engine>& shared_engine() const { return engine_; }
  EngineLink link() const { return EngineLink(engine_); }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }

 private:
  std::shared_ptr<Engine> engine_;
  DType dtype_ = DType::f32;
  Device device_;
};

// Throws if `bytes` is not the size of values of that shape and dtype.
void check_bytes(const Shape& shape, DType dtype, std::size_t bytes, const char* call);

}  // namespace heddle::c
