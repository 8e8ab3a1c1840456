// Memory for ops: a thread's ops are adjacent in its own chunk. So a worker that runs them reads memory in
// order, and the allocations of two threads share no cache line. A chunk whose ops are all freed is used
// again.
#pragma once

#include <cstddef>

namespace heddle::detail {

constexpr std::size_t kOpAlign = 64;
constexpr std::size_t kLargestOp = 8 * 1024;  // in bytes; a larger op has a block of its own

// Returns memory aligned to kOpAlign. Throws std::bad_alloc.
void* op_allocate(std::size_t bytes);
// Frees the memory of an op that has used at least its first `bytes` bytes. `alone`: it is a block of its
// own.
void op_free(void* memory, std::size_t bytes, bool alone) noexcept;

// Publishes the calling thread's count of freed ops, so that chunks become reusable. Called when the thread
// frees no more ops for a while.
void op_memory_flush() noexcept;

// Gives memory of empty chunks back to the system. Called when the engine has been idle for a while.
void op_memory_trim() noexcept;

// Bytes of chunks that are in use or kept for use. For tests and benchmarks.
std::size_t op_memory_resident() noexcept;

}  // namespace heddle::detail
