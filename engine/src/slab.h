// Memory for ops: made by the thread that pushes, given back by the thread that finishes.
#pragma once

#include <cstddef>

namespace heddle::detail {

// Aligned for any type. A thread reuses the blocks it allocated; a block freed by another thread goes back to its
// allocator through one atomic stack, so that no malloc crosses threads. Throws std::bad_alloc.
void* slab_allocate(std::size_t bytes);
void slab_free(void* block) noexcept;

}  // namespace heddle::detail
