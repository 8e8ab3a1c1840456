#include "new_array.h"

namespace heddle::c {

NewArray::NewArray(const heddle_array_options* options, const char* call) {
  if (options) {
    check_struct(options, call, "heddle_array_options");
    dtype_ = dtype_of_number(options->dtype, call);
    device_ = device_of(options->device, call);
  }
  engine_ = engine_of(options ? options->engine : nullptr, call);
}

void check_bytes(const Shape& shape, DType dtype, std::size_t bytes, const char* call) {
  std::size_t want = 0;
  const auto elements = static_cast<std::size_t>(element_count(shape));
  if (!__builtin_mul_overflow(elements, size_of(dtype), &want) && want == bytes) return;
  throw InvalidArgument(std::string(call) + ": " + std::to_string(bytes) + " bytes for an array of " +
                        name_of(dtype) + " " + shape.to_string());
}

}  // namespace heddle::c
