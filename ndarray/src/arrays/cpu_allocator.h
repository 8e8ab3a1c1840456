// The caching allocator behind every array on a cpu device. Thread-safe.
#pragma once

#include <cstddef>

#include <heddle/memory.h>

namespace heddle::ndarray_detail {

// The size that a request is rounded up to: under 25% more, but at least 64.
std::size_t cpu_block_size(std::size_t bytes);

}  // namespace heddle::ndarray_detail
