// Memory of GPUs that others have lent (Storage). It goes back to its owner at once when the storage ends, not in stream order
// as a pool's memory does.
#pragma once

#include <heddle/op.h>

namespace heddle::ndarray_detail {

// Whether an op with these vars uses such memory.
bool uses_lent_memory(const Access& access);

}  // namespace heddle::ndarray_detail
