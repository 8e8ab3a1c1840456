// How much memory a process may use, and how much of it arrays keep for reuse.
#pragma once

#include <cstddef>

namespace heddle {

std::size_t usable_memory();  // most bytes that the host and its control groups let this process use
// Bounds the bytes that the arrays' allocator keeps for reuse; the default is a quarter of usable_memory().
// Thread-safe.
void cpu_allocator_cache_limit(std::size_t bytes);

namespace ndarray_detail {
// The allocator behind arrays on a cpu device, for kernels' large scratch memory. At least `bytes` bytes, 64-byte aligned, of
// undetermined content; they are freed with the same number. Thread-safe. cpu_allocate() throws std::bad_alloc.
std::byte* cpu_allocate(std::size_t bytes);
void cpu_deallocate(std::byte* block, std::size_t bytes) noexcept;
}  // namespace ndarray_detail

}  // namespace heddle
