#include "cpu/scratch.h"

#include <bit>
#include <new>
#include <vector>

#include <heddle/array_error.h>
#include <heddle/memory.h>

namespace heddle::cpu_kernels {
namespace {

constexpr std::align_val_t kAlign{64};
constexpr std::size_t kSmallest = 4096;
constexpr std::size_t kMostKept = std::size_t{64} << 20;  // bytes kept by each thread
constexpr std::size_t kLarge = std::size_t{4} << 20;      // larger blocks are those of the arrays' allocator

struct Block {
  void* data;
  std::size_t bytes;
};

struct FreeBlocks {
  std::vector<Block> blocks;
  std::size_t bytes = 0;
  ~FreeBlocks() {
    for (Block block : blocks) ::operator delete(block.data, kAlign);
  }
};

FreeBlocks& free_blocks() {
  thread_local FreeBlocks free;
  return free;
}

// Returns the block of this size that was freed last, or null. Sizes are rounded up to powers of two, so that
// blocks fit more often.
void* take(FreeBlocks& free, std::size_t bytes) {
  for (std::size_t i = free.blocks.size(); i-- > 0;) {
    if (free.blocks[i].bytes != bytes) continue;
    void* data = free.blocks[i].data;
    free.blocks.erase(free.blocks.begin() + static_cast<std::ptrdiff_t>(i));
    free.bytes -= bytes;
    return data;
  }
  return nullptr;
}

}  // namespace

Scratch::Scratch(std::size_t bytes) {
  if (bytes == 0) return;
  if (bytes > kLarge) {
    bytes_ = bytes;
    try {
      data_ = ndarray_detail::cpu_allocate(bytes);
    } catch (const std::bad_alloc&) {
      throw OutOfMemory("the scratch memory of a kernel", bytes);
    }
    return;
  }
  bytes_ = std::bit_ceil(bytes < kSmallest ? kSmallest : bytes);
  data_ = take(free_blocks(), bytes_);
  if (!data_) data_ = ::operator new(bytes_, kAlign, std::nothrow);
  if (!data_) throw OutOfMemory("the scratch memory of a kernel", bytes_);
}

Scratch::~Scratch() {
  if (!data_) return;
  if (bytes_ > kLarge) {
    ndarray_detail::cpu_deallocate(static_cast<std::byte*>(data_), bytes_);
    return;
  }
  FreeBlocks& free = free_blocks();
  if (free.bytes + bytes_ > kMostKept) {
    ::operator delete(data_, kAlign);
    return;
  }
  free.blocks.push_back({data_, bytes_});
  free.bytes += bytes_;
}

}  // namespace heddle::cpu_kernels
