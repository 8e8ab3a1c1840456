// Records that are not written to the file yet: each thread appends to chunks of its own, one writer takes
// them. A lock is taken only at the start of a chunk, and memory is allocated for many chunks at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "trace/trace_record.h"

namespace heddle::trace {

inline constexpr std::size_t kChunkBytes = std::size_t{64} << 10;
inline constexpr std::uint32_t kChunkRecords = (kChunkBytes - 64) / sizeof(Record);

struct Chunk {
  std::atomic<std::uint32_t> count{0};  // number of records that may be read; stored by the recording thread
  std::uint32_t taken = 0;              // number of records that the writer has taken; for the writer only
  std::atomic<Chunk*> next{nullptr};    // set once this chunk is full
  alignas(64) Record records[kChunkRecords];
};
static_assert(sizeof(Record) == 64 && sizeof(Chunk) <= kChunkBytes);

// The chunks of all threads. The addresses of a trace's memory stay reserved for the next trace; its pages
// are returned to the system.
class ChunkPool {
 public:
  ChunkPool() = default;
  ~ChunkPool();
  ChunkPool(const ChunkPool&) = delete;
  ChunkPool& operator=(const ChunkPool&) = delete;
  void set_limit(std::size_t bytes);
  Chunk* take() noexcept;  // null: the limit of memory is reached
  void give(Chunk* chunk) noexcept;
  void trim() noexcept;  // gives the pages of free chunks back to the system
  bool is_half_full() noexcept;
  std::size_t chunks() noexcept;

 private:
  bool grow() noexcept;
  std::atomic<bool> exhausted_{false};  // lets threads whose records are dropped skip the mutex
  std::mutex mutex_;                    // guards all below; nothing else is locked while it is held
  std::vector<void*> free_;
  std::vector<void*> slabs_;
  std::size_t chunks_ = 0, used_ = 0, limit_ = 0;  // chunks made, chunks in use, most that may be in use
};

// The records of one thread. That thread appends them; one other thread at a time takes them.
class ThreadBuffer {
 public:
  ThreadBuffer(ChunkPool& pool, Chunk* first) : pool_(pool), tail_(first), head_(first) {}

  // place(), commit() and end_of_thread() are for the thread that owns the buffer. place() returns where to
  // write a record that starts at `start`, or null if the record is dropped; commit() appends the record.
  Record* place(Tick start) noexcept {
    return used_ < kChunkRecords ? &tail_->records[used_] : place_in_next_chunk(start);
  }
  void commit() noexcept {
    // release: the writer that sees the count sees the record.
    tail_->count.store(++used_, std::memory_order_release);
  }
  void end_of_thread() noexcept { ended_.store(true, std::memory_order_release); }

  // The functions from here on are for the writer. take() calls use(record) for each new record of the oldest
  // chunk. It returns true if it has finished that chunk and another one follows.
  template <class F> bool take(F&& use) {
    const std::uint32_t count = head_->count.load(std::memory_order_acquire);
    for (; head_->taken < count; ++head_->taken) use(head_->records[head_->taken]);
    Chunk* next = count == kChunkRecords ? head_->next.load(std::memory_order_acquire) : nullptr;
    if (!next) return false;
    pool_.give(std::exchange(head_, next));
    return true;
  }
  bool empty() const noexcept {
    return head_->taken == head_->count.load(std::memory_order_acquire) &&
           !head_->next.load(std::memory_order_acquire);
  }
  bool ended() const noexcept { return ended_.load(std::memory_order_acquire); }
  // The chunk to return to the pool when the thread has ended and all records are taken.
  Chunk* last_chunk() const { return head_; }
  std::uint64_t take_dropped() noexcept;

 private:
  Record* place_in_next_chunk(Tick start) noexcept;
  ChunkPool& pool_;
  Chunk* tail_;
  std::uint32_t used_ = 0;
  std::uint64_t dropped_in_a_row_ = 0;
  Tick dropped_since_ = 0;
  std::atomic<std::uint64_t> dropped_{0};  // records dropped since the last take_dropped()
  Chunk* head_;
  std::atomic<bool> ended_{false};
};

}  // namespace heddle::trace
