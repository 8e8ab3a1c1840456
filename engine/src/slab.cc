#include "slab.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

#include <sanitizer/asan_interface.h>

#include "fork.h"

namespace heddle::detail {
namespace {

constexpr std::array<std::size_t, 8> kSizes{192, 256, 384, 512, 768, 1024, 1536, 2048};  // of payload
constexpr std::size_t kChunkBytes = 64 * 1024;

struct Pool;

struct alignas(std::max_align_t) Block {
  Pool* owner;  // null: its own malloc
  std::uint32_t size_class;
};

// Behind the header of a free block.
struct Link {
  Block* next;
};

void* payload(Block* block) { return block + 1; }
Link& link(Block* block) { return *static_cast<Link*>(payload(block)); }

struct Pool {
  std::array<Block*, kSizes.size()> local{};                // only the owning thread
  std::array<std::atomic<Block*>, kSizes.size()> remote{};  // pushed by others, taken whole by the owner

  Block* take(std::uint32_t size_class) {
    Block*& head = local[size_class];
    // acquire: the freeing threads' last writes to the blocks come before ours.
    if (!head) head = remote[size_class].exchange(nullptr, std::memory_order_acquire);
    if (!head) head = carve(size_class);
    Block* block = head;
    head = link(block).next;
    ASAN_UNPOISON_MEMORY_REGION(payload(block), kSizes[size_class]);
    return block;
  }

  void give_local(Block* block) {
    link(block).next = local[block->size_class];
    local[block->size_class] = block;
    poison(block);
  }

  void give_remote(Block* block) {
    std::atomic<Block*>& head = remote[block->size_class];
    link(block).next = head.load(std::memory_order_relaxed);
    poison(block);
    // release: pairs with the exchange in take(). Only whole stacks are popped, so there is no ABA.
    while (!head.compare_exchange_weak(link(block).next, block, std::memory_order_release,
                                       std::memory_order_relaxed)) {
    }
  }

  static void poison(Block* block) {
    ASAN_POISON_MEMORY_REGION(&link(block) + 1, kSizes[block->size_class] - sizeof(Link));
  }

  Block* carve(std::uint32_t size_class) {
    const std::size_t stride = sizeof(Block) + kSizes[size_class];
    auto* memory = static_cast<std::byte*>(::operator new(kChunkBytes));
    Block* head = nullptr;
    for (std::size_t at = 0; at + stride <= kChunkBytes; at += stride) {
      auto* block = ::new (memory + at) Block{this, size_class};
      ::new (payload(block)) Link{head};
      head = block;
    }
    return head;
  }
};

// Pools outlive their threads, since their blocks do; a new thread takes over one that was left.
struct Registry {
  ForkMutex mutex;  // guards all below
  std::vector<Pool*> all;
  std::vector<Pool*> orphans;

  Pool* adopt() {
    std::lock_guard guard(mutex);
    if (orphans.empty()) {
      all.push_back(new Pool);
      return all.back();
    }
    Pool* pool = orphans.back();
    orphans.pop_back();
    return pool;
  }
  void orphan(Pool* pool) {
    std::lock_guard guard(mutex);
    orphans.push_back(pool);
  }
};

// Never destroyed: ops may end during static destruction.
Registry& registry() {
  static Registry& immortal = *new Registry;
  return immortal;
}

struct ThreadPool {
  Pool* pool = registry().adopt();
  ~ThreadPool() {
    registry().orphan(pool);
    pool = nullptr;
  }
};

Pool*& my_pool() {
  thread_local ThreadPool mine;
  // After this thread's destructors ran (a push from another thread_local's destructor): adopt again, and leak
  // that pool to the registry's list.
  if (!mine.pool) mine.pool = registry().adopt();
  return mine.pool;
}

}  // namespace

void* slab_allocate(std::size_t bytes) {
  for (std::uint32_t size_class = 0; size_class < kSizes.size(); ++size_class) {
    if (bytes <= kSizes[size_class]) return payload(my_pool()->take(size_class));
  }
  auto* block = ::new (::operator new(sizeof(Block) + bytes)) Block{nullptr, 0};
  return payload(block);
}

void slab_free(void* memory) noexcept {
  Block* block = static_cast<Block*>(memory) - 1;
  if (!block->owner) {
    ::operator delete(block);
  } else if (block->owner == my_pool()) {
    block->owner->give_local(block);
  } else {
    block->owner->give_remote(block);
  }
}

}  // namespace heddle::detail
