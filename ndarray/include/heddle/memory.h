// How much memory a process may use, and how much of it arrays keep for reuse.
#pragma once

#include <cstddef>

namespace heddle {

std::size_t usable_memory();  // bytes that the host, and its control groups, let this process have at most
// The allocator of arrays keeps no more than so many bytes for reuse, from now on; at first a quarter of usable_memory().
// Thread-safe.
void cpu_allocator_cache_limit(std::size_t bytes);

}  // namespace heddle
