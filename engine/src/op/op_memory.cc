#include "op/op_memory.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>
#include <sys/mman.h>
#include <utility>
#include <vector>

#include <sanitizer/asan_interface.h>

#include "base/fork.h"

namespace heddle::detail {
namespace {

// Size and alignment of a chunk. The address of an op gives the address of its chunk.
constexpr std::size_t kChunkBytes = 64 * 1024;
constexpr std::size_t kChunksPerMapping = 16;  // chunks that one mmap gets from the system
constexpr std::size_t kMostReturns = 4;        // empty chunks that a pool keeps for itself

struct Pool;

struct alignas(kOpAlign) Chunk {
  Pool* owner;
  Chunk* next;  // next in a list of empty chunks
  // Number of ops allocated in the chunk, which is added when the chunk is full, less the number of ops
  // freed.
  alignas(kOpAlign) std::atomic<std::int64_t> balance;
};

Chunk* chunk_of(void* op) {
  return reinterpret_cast<Chunk*>(reinterpret_cast<std::uintptr_t>(op) & ~(kChunkBytes - 1));
}
std::byte* ops_of(Chunk* chunk) { return reinterpret_cast<std::byte*>(chunk + 1); }

// A source of memory for ops that serves one thread at a time.
struct Pool {
  Chunk* chunk = nullptr;
  std::byte* at = nullptr;
  std::byte* end = nullptr;
  std::int64_t made = 0;                  // ops allocated in `chunk`
  std::atomic<Chunk*> returned{nullptr};  // empty chunks: any thread pushes one, the owner takes all
  std::atomic<std::size_t> returns{0};    // the approximate number of chunks in `returned`
};

// Chunks that belong to no pool. Never destroyed: ops may end during static destruction.
class Reserve {
 public:
  Chunk* take() {
    std::lock_guard guard(mutex_);
    std::vector<Chunk*>& from = warm_.empty() ? cold_ : warm_;
    if (from.empty()) map();
    Chunk* chunk = from.back();
    from.pop_back();
    resident_ += &from == &cold_ ? kChunkBytes : 0;
    return chunk;
  }
  void give(Chunk* chunk) noexcept {
    std::lock_guard guard(mutex_);
    warm_.push_back(chunk);  // does not allocate, since map() has reserved room for all chunks
  }
  void trim() noexcept {
    std::lock_guard guard(mutex_);
    for (Chunk* chunk : warm_) {
      // The content is lost; the addresses stay reserved.
      madvise(chunk, kChunkBytes, MADV_DONTNEED);
      cold_.push_back(chunk);
    }
    resident_ -= warm_.size() * kChunkBytes;
    warm_.clear();
  }
  std::size_t resident() {
    std::lock_guard guard(mutex_);
    return resident_;
  }

  Pool* adopt_pool() {
    std::lock_guard guard(mutex_);
    if (orphans_.empty()) return new Pool;
    Pool* pool = orphans_.back();
    orphans_.pop_back();
    return pool;
  }
  void orphan_pool(Pool* pool) {
    std::lock_guard guard(mutex_);
    orphans_.push_back(pool);
  }

 private:
  void map() {
    // One chunk more than is used, so that the chunks can be aligned.
    constexpr std::size_t kBytes = (kChunksPerMapping + 1) * kChunkBytes;
    warm_.reserve(chunks_ + kChunksPerMapping);
    cold_.reserve(chunks_ + kChunksPerMapping);
    void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    auto first = (reinterpret_cast<std::uintptr_t>(memory) + kChunkBytes - 1) & ~(kChunkBytes - 1);
    for (std::size_t i = kChunksPerMapping; i-- > 0;)
      cold_.push_back(reinterpret_cast<Chunk*>(first + i * kChunkBytes));
    chunks_ += kChunksPerMapping;
  }

  ForkMutex mutex_;                  // guards all below
  std::vector<Chunk*> warm_, cold_;  // `cold_` has the chunks without physical memory, `warm_` the others
  std::vector<Pool*> orphans_;       // pools of threads that have ended
  std::size_t chunks_ = 0;
  std::size_t resident_ = 0;  // bytes of chunks that are not cold
};

Reserve& reserve() {
  static Reserve& immortal = *new Reserve;
  return immortal;
}

void give_back(Chunk* chunk) noexcept {
  Pool& owner = *chunk->owner;
  if (owner.returns.load(std::memory_order_relaxed) >= kMostReturns) return reserve().give(chunk);
  owner.returns.fetch_add(1, std::memory_order_relaxed);
  chunk->next = owner.returned.load(std::memory_order_relaxed);
  // release: pairs with the exchange in next_chunk(). Only whole lists are taken, so there is no ABA.
  while (!owner.returned.compare_exchange_weak(chunk->next, chunk, std::memory_order_release,
                                               std::memory_order_relaxed)) {
  }
}

// Takes `count` ops off the chunk's balance; zero means that the chunk is full and all of its ops are freed.
void take_off(Chunk* chunk, std::int64_t count) noexcept {
  // acq_rel: the thread that makes the balance zero sees what all other threads did in the chunk.
  if (chunk->balance.fetch_sub(count, std::memory_order_acq_rel) == count) give_back(chunk);
}

// A thread's part of the allocator. Trivially destructible, so that it can be used until the end of the
// thread.
struct ThreadCache {
  Pool* pool;
  Chunk* freeing;      // the chunk in which this thread frees ops
  std::int64_t freed;  // ops freed in `freeing` that are not subtracted from its balance yet
  bool ended;          // whether the thread's destructors have run
};
constinit thread_local ThreadCache thread_cache{};

void give_pool_back() {
  if (thread_cache.pool) reserve().orphan_pool(std::exchange(thread_cache.pool, nullptr));
}

struct AtThreadEnd {
  ~AtThreadEnd() {
    op_memory_flush();
    give_pool_back();
    thread_cache.ended = true;
  }
  bool armed = false;
};

void arm() {
  thread_local AtThreadEnd at_end;
  at_end.armed = true;
}

void next_chunk(Pool& pool) {
  if (Chunk* full = std::exchange(pool.chunk, nullptr)) {
    pool.at = pool.end = nullptr;
    take_off(full, -std::exchange(pool.made, 0));
  }
  Chunk* chunk = pool.returned.exchange(nullptr, std::memory_order_acquire);
  if (chunk) {
    for (Chunk* more = std::exchange(chunk->next, nullptr); more;) {
      Chunk* after = more->next;
      reserve().give(more);
      more = after;
    }
    pool.returns.store(0, std::memory_order_relaxed);
  } else {
    chunk = reserve().take();
  }
  ::new (chunk) Chunk{&pool, nullptr, {0}};
  pool.chunk = chunk;
  pool.at = ops_of(chunk);
  pool.end = reinterpret_cast<std::byte*>(chunk) + kChunkBytes;
}

// Precondition: the pool's chunk has so many bytes left.
inline void* take(Pool& pool, std::size_t bytes) {
  std::byte* memory = pool.at;
  pool.at += bytes;
  ++pool.made;
  ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
  // The cache lines of the next ops may be in another core's cache: that of the core that ran the last ops
  // there.
  __builtin_prefetch(pool.at + 4 * kOpAlign, 1);
  __builtin_prefetch(pool.at + 5 * kOpAlign, 1);
  return memory;
}

[[gnu::noinline]] void* allocate_slowly(std::size_t bytes) {
  if (!thread_cache.pool) {
    thread_cache.pool = reserve().adopt_pool();
    if (!thread_cache.ended) arm();
  }
  Pool& pool = *thread_cache.pool;
  if (static_cast<std::size_t>(pool.end - pool.at) < bytes) next_chunk(pool);
  void* memory = take(pool, bytes);
  if (thread_cache.ended) give_pool_back();  // AtThreadEnd, which returns the pool, has run already
  return memory;
}

}  // namespace

void* op_allocate(std::size_t bytes) {
  bytes = (bytes + kOpAlign - 1) & ~(kOpAlign - 1);
  if (bytes > kLargestOp) return ::operator new(bytes, std::align_val_t(kOpAlign));
  Pool* pool = thread_cache.pool;
  if (!pool || static_cast<std::size_t>(pool->end - pool->at) < bytes) return allocate_slowly(bytes);
  return take(*pool, bytes);
}

void op_free(void* memory, [[maybe_unused]] std::size_t bytes, bool alone) noexcept {
  if (alone) return ::operator delete(memory, std::align_val_t(kOpAlign));
  ASAN_POISON_MEMORY_REGION(memory, bytes);
  Chunk* chunk = chunk_of(memory);
  if (chunk != thread_cache.freeing) {
    op_memory_flush();
    thread_cache.freeing = chunk;
  }
  ++thread_cache.freed;
  if (thread_cache.ended) op_memory_flush();
}

void op_memory_flush() noexcept {
  if (thread_cache.freed > 0) take_off(thread_cache.freeing, std::exchange(thread_cache.freed, 0));
  thread_cache.freeing = nullptr;
}

void op_memory_trim() noexcept { reserve().trim(); }
std::size_t op_memory_resident() noexcept { return reserve().resident(); }

}  // namespace heddle::detail
