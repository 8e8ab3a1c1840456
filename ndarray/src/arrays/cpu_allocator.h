// The caching allocator behind every array on a cpu device. Thread-safe.
#pragma once

#include <cstddef>

namespace heddle::ndarray_detail {

// Allocates at least `bytes` bytes, 64-byte aligned, of undetermined content. Throws std::bad_alloc.
std::byte* cpu_allocate(std::size_t bytes);

// Frees what cpu_allocate(bytes) returned.
void cpu_deallocate(std::byte* block, std::size_t bytes) noexcept;

// The size that a request is rounded up to: under 25% more, but at least 64.
std::size_t cpu_block_size(std::size_t bytes);

}  // namespace heddle::ndarray_detail
