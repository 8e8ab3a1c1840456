// Order between ops on an array of a GPU and the stream of another library.
#pragma once

#include <heddle/dlpack.h>

namespace heddle::ndarray_detail {

// Throws InvalidArgument, naming the call, for an array that is not on a GPU.
void check_on_gpu(const char* call, const NDArray& array);

}  // namespace heddle::ndarray_detail
