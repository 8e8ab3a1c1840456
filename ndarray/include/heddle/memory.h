// How much memory a process may use, and how much of it arrays keep for reuse.
#pragma once

#include <cstddef>

namespace heddle {

std::size_t usable_memory();  // most bytes that the host and its control groups let this process use
// Bounds the bytes that the arrays' allocator keeps for reuse; the default is a quarter of usable_memory().
// Thread-safe.
void cpu_allocator_cache_limit(std::size_t bytes);

}  // namespace heddle
