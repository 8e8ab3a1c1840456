#include "trace/trace_buffer.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <sys/mman.h>
#include <utility>

#include "trace/trace.h"

namespace heddle::trace {
namespace {
// The size of a huge page: writing new memory then causes a page fault every 32768 records, not every 64.
constexpr std::size_t kSlabBytes = std::size_t{2} << 20;
}  // namespace

ChunkPool::~ChunkPool() {
  for (void* slab : slabs_) std::free(slab);
}

void ChunkPool::set_limit(std::size_t bytes) {
  std::lock_guard guard(mutex_);
  limit_ = std::max<std::size_t>(1, bytes / kChunkBytes);
  exhausted_.store(false, std::memory_order_relaxed);
}

bool ChunkPool::grow() noexcept {
  const std::size_t bytes = std::min(kSlabBytes, (limit_ - used_) * kChunkBytes);
  void* slab = std::aligned_alloc(bytes == kSlabBytes ? kSlabBytes : kChunkBytes, bytes);
  if (!slab) return false;
  try {
    slabs_.reserve(slabs_.size() + 1);
    free_.reserve(chunks_ + bytes / kChunkBytes);  // reserved now, so that give() does not allocate
  } catch (const std::bad_alloc&) {
    std::free(slab);
    return false;
  }
  ::madvise(slab, bytes, MADV_HUGEPAGE);
  slabs_.push_back(slab);
  chunks_ += bytes / kChunkBytes;
  for (std::size_t at = bytes; at > 0; at -= kChunkBytes) {
    free_.push_back(static_cast<char*>(slab) + at - kChunkBytes);
  }
  return true;
}

Chunk* ChunkPool::take() noexcept {
  if (exhausted_.load(std::memory_order_relaxed)) return nullptr;
  std::lock_guard guard(mutex_);
  if (used_ >= limit_ || (free_.empty() && !grow())) {
    exhausted_.store(true, std::memory_order_relaxed);
    return nullptr;
  }
  void* memory = free_.back();
  free_.pop_back();
  ++used_;
  return ::new (memory) Chunk;
}

void ChunkPool::give(Chunk* chunk) noexcept {
  std::lock_guard guard(mutex_);
  free_.push_back(chunk);
  --used_;
  exhausted_.store(false, std::memory_order_relaxed);
}

bool ChunkPool::is_half_full() noexcept {
  std::lock_guard guard(mutex_);
  return used_ >= limit_ / 2;
}

std::size_t ChunkPool::chunks() noexcept {
  std::lock_guard guard(mutex_);
  return chunks_;
}

// Returns the pages of whole slabs only: memory that is returned in smaller pieces comes back as small pages.
void ChunkPool::trim() noexcept {
  std::lock_guard guard(mutex_);
  std::sort(free_.begin(), free_.end());
  for (void* slab : slabs_) {
    const auto first = std::lower_bound(free_.begin(), free_.end(), slab);
    const auto last =
        std::lower_bound(first, free_.end(), static_cast<void*>(static_cast<char*>(slab) + kSlabBytes));
    if (last - first == kSlabBytes / kChunkBytes) ::madvise(slab, kSlabBytes, MADV_DONTNEED);
  }
}

// Called when the chunk is full. If records were dropped, the first record of the next chunk tells how many.
Record* ThreadBuffer::place_in_next_chunk(Tick start) noexcept {
  Chunk* next = pool_.take();
  if (!next) {
    if (dropped_in_a_row_++ == 0) dropped_since_ = start;
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  tail_->next.store(next, std::memory_order_release);
  tail_ = next;
  used_ = 0;
  if (const std::uint64_t dropped = std::exchange(dropped_in_a_row_, 0)) {
    next->records[used_++] = {.start = dropped_since_,
                              .end = std::max(start, dropped_since_),
                              .sequence = kNone,
                              .other = dropped,
                              .name = "not recorded",
                              .file = nullptr,
                              .line = 0,
                              .lane = this_thread_lane(),
                              .engine = 0,
                              .kind = Kind::gap};
  }
  return &next->records[used_];
}

std::uint64_t ThreadBuffer::take_dropped() noexcept {
  return dropped_.exchange(0, std::memory_order_relaxed);
}

}  // namespace heddle::trace
