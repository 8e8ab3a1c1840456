#include "cuda/arrays.h"

#include <heddle/error.h>

namespace heddle::cuda_kernels {

std::byte* address(const NDArray& array, check::AccessKind touch) {
  std::byte* const begin = array.storage()->device_data(touch, &array);
  return begin + array.offset() * static_cast<std::int64_t>(size_of(array.dtype()));
}

void check_launch(const KernelContext& context, const char* problem) {
  if (problem) throw Error("a kernel on " + context.stream().device().to_string() + ": " + problem);
}

}  // namespace heddle::cuda_kernels
