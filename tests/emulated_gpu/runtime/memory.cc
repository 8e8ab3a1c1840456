#include "runtime/memory.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <sys/mman.h>

#include "executor/sanitizers.h"
#include "runtime/access.h"

namespace heddle::emulated_gpu {
namespace {

constexpr std::size_t kZone = 256;   // bytes of a red zone
constexpr std::size_t kRound = 512;  // capacities are multiples of it
constexpr std::size_t kChecked =
    64 << 10;  // bytes at both ends of a freed block that synchronisations look at
constexpr unsigned char kZoneByte = 0xfb;

enum class State { live, freeing, freed };

struct Block {
  Allocation allocation;
  std::size_t capacity = 0;
  State state = State::live;
  const void* freed_on = nullptr;        // the stream
  std::optional<std::size_t> painted{};  // where the red zone behind begins; none before paint()
  bool poisoned = false;                 // the pattern of freed memory is complete
  bool trimmed = false;                  // gives its bytes back to the device
};

struct Arena {
  char* base = nullptr;
  std::size_t reserved = 0, top = 0, used = 0;  // used: bytes of blocks that are not trimmed
  // By address. Blocks stay for ever, so no other thread frees what one has allocated.
  std::map<const char*, Block> blocks{};
};

SpinLock lock;  // guards all below
Arena arenas[kMostDevices];
std::size_t device_memory = 0;
std::uint64_t serials = 0;

std::size_t rounded(std::size_t bytes) { return (bytes + kRound - 1) / kRound * kRound; }

// Sanitizers see nothing of these two.
void fill_unseen(char* at, std::size_t bytes, unsigned char value) {
  volatile char* to = at;
  for (std::size_t i = 0; i < bytes; ++i) to[i] = static_cast<char>(value);
}
std::size_t same_unseen(const char* at, std::size_t bytes, unsigned char value) {
  const volatile char* from = at;
  std::size_t i = 0;
  while (i < bytes && from[i] == static_cast<char>(value)) ++i;
  return i;
}

Arena* arena_of(const void* address) {
  const auto* at = static_cast<const char*>(address);
  for (Arena& arena : arenas) {
    if (arena.base && at >= arena.base && at < arena.base + arena.reserved) return &arena;
  }
  return nullptr;
}

// The block whose memory or red zone in front the address is in.
Block* block_at(const void* address) {
  Arena* arena = arena_of(address);
  if (!arena) return nullptr;
  const auto* at = static_cast<const char*>(address);
  auto after = arena->blocks.upper_bound(at + kZone);
  if (after == arena->blocks.begin()) return nullptr;
  return &std::prev(after)->second;
}

Block* block_of(const void* begin) {
  Arena* arena = arena_of(begin);
  if (!arena) return nullptr;
  const auto found = arena->blocks.find(static_cast<const char*>(begin));
  return found == arena->blocks.end() ? nullptr : &found->second;
}

std::string text_of(const Block& block) {
  const char* state = block.state == State::live ? "" : ", which was freed";
  return "allocation " + std::to_string(block.allocation.serial) + " of " +
         std::to_string(block.allocation.bytes) + " bytes on gpu(" + std::to_string(block.allocation.device) +
         ")" + state;
}

std::string check_zones(const Block& block) {
  if (with_asan() || !block.painted) return "";
  const char* begin = block.allocation.begin;
  if (same_unseen(begin - kZone, kZone, kZoneByte) < kZone) {
    return "memory in front of " + text_of(block) + " was overwritten";
  }
  const std::size_t behind = block.capacity + kZone - *block.painted;
  const std::size_t same = same_unseen(begin + *block.painted, behind, kZoneByte);
  if (same == behind) return "";
  return "memory behind " + text_of(block) + " was overwritten, " + std::to_string(same) +
         " bytes after its end";
}

void paint_zones(const Block& block) {
  char* begin = block.allocation.begin;
  fill_unseen(begin - kZone, kZone, kZoneByte);
  fill_unseen(begin + *block.painted, block.capacity + kZone - *block.painted, kZoneByte);
}

// Looks at the first and last `most` bytes of what was freed.
std::string check_freed(const Block& block, std::size_t most) {
  if (with_asan() || !block.poisoned) return "";
  const std::size_t bytes = block.painted.value_or(0), part = std::min(most, bytes);
  const char* begin = block.allocation.begin;
  std::size_t at = same_unseen(begin, part, kPoison);
  if (at == part) at = bytes - part + same_unseen(begin + bytes - part, part, kPoison);
  if (at == bytes) return "";
  return "freed memory was written: byte " + std::to_string(at) + " of " + text_of(block);
}

Arena& opened(int device) {
  Arena& arena = arenas[device];
  if (!arena.base) {
    arena.reserved = 4 * device_memory + (std::size_t{64} << 20);
    void* memory =
        mmap(nullptr, arena.reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    arena.base = static_cast<char*>(memory);
  }
  return arena;
}

bool has_room(const Arena& arena, std::size_t capacity) {
  return capacity <= device_memory && arena.used <= device_memory - capacity;
}

// Blocks of the pool that the stream's later work may use, and blocks that are free for all.
Block* reusable(Arena& arena, std::size_t capacity, const void* pool, const void* stream) {
  Block* found = nullptr;
  for (auto& [begin, block] : arena.blocks) {
    if (block.capacity != capacity || block.allocation.pool != pool || block.state == State::live) continue;
    if (block.trimmed && !has_room(arena, capacity)) continue;
    if (pool && block.freed_on == stream) return &block;
    if (block.state == State::freed && !found) found = &block;
  }
  return found;
}

Block* fresh(Arena& arena, std::size_t capacity) {
  const std::size_t top = arena.top + kZone + capacity + kZone;
  if (top > arena.reserved) return nullptr;
  char* begin = arena.base + arena.top + kZone;
  // The red zone behind a block is that in front of the next.
  const std::size_t page = std::size_t{1} << 20;
  set_mapped(static_cast<int>(&arena - arenas), arena.base,
             std::min(arena.reserved, (top + page - 1) / page * page));
  asan_poison(arena.base + arena.top, top - arena.top);
  arena.top += kZone + capacity;
  Block& block = arena.blocks[begin];
  block.allocation.begin = begin;
  block.capacity = capacity;
  return &block;
}

}  // namespace

void set_device_memory(std::size_t bytes) {
  const std::lock_guard guard(lock);
  device_memory = bytes;
}

Allocation allocate(int device, std::size_t bytes, const void* pool, const void* stream) {
  const std::lock_guard guard(lock);
  Arena& arena = opened(device);
  const std::size_t capacity = rounded(bytes);
  Block* block = reusable(arena, capacity, pool, stream);
  const bool is_new = !block;
  if (is_new && has_room(arena, capacity)) block = fresh(arena, capacity);
  if (!block) return {};
  if (is_new || block->trimmed) arena.used += capacity;
  block->trimmed = false;
  block->allocation = {block->allocation.begin, bytes, device, ++serials, pool};
  block->state = State::live;
  return block->allocation;
}

std::string paint(const Allocation& allocation) {
  const std::lock_guard guard(lock);
  Block& block = *block_of(allocation.begin);
  char* begin = allocation.begin;
  std::string wrong = check_freed(block, block.capacity);
  asan_poison(begin, block.capacity);
  asan_unpoison(begin, allocation.bytes);
  std::memset(begin, kPoison, allocation.bytes);
  block.painted = allocation.bytes;
  if (!with_asan()) paint_zones(block);
  block.poisoned = false;
  return wrong;
}

bool find_live(const void* begin, Allocation& found) {
  const std::lock_guard guard(lock);
  const Block* block = block_of(begin);
  if (!block || block->state != State::live) return false;
  found = block->allocation;
  return true;
}

void begin_free(const Allocation& allocation, const void* stream) {
  const std::lock_guard guard(lock);
  Block& block = *block_of(allocation.begin);
  block.state = State::freeing;
  block.freed_on = stream;
}

std::string finish_free(const Allocation& allocation) {
  const std::lock_guard guard(lock);
  Block& block = *block_of(allocation.begin);
  std::string wrong = check_zones(block);
  std::memset(allocation.begin, kPoison, allocation.bytes);
  asan_poison(allocation.begin, block.capacity);
  block.poisoned = true;
  // Otherwise the stream has allocated it again meanwhile.
  if (block.allocation.serial == allocation.serial) {
    block.state = State::freed;
    if (!allocation.pool) {
      arenas[allocation.device].used -= block.capacity;
      block.trimmed = true;
    }
  }
  return wrong;
}

bool is_device_memory(const void* address) { return arena_of(address) != nullptr; }
int device_of_memory(const void* address) {
  const Arena* const arena = arena_of(address);
  return arena ? static_cast<int>(arena - arenas) : -1;
}

int device_of_live(const void* begin, std::size_t bytes) {
  const std::lock_guard guard(lock);
  const Block* block = block_at(begin);
  if (!block || block->state != State::live) return -1;
  const Allocation& in = block->allocation;
  const auto* from = static_cast<const char*>(begin);
  const bool inside = from >= in.begin && bytes <= in.bytes &&
                      from - in.begin <= static_cast<std::ptrdiff_t>(in.bytes - bytes);
  return inside ? in.device : -1;
}

bool is_of_pool(const void* address) {
  const std::lock_guard guard(lock);
  const Block* block = block_at(address);
  return block && block->allocation.pool;
}

std::string check_use(const void* begin, std::size_t bytes) {
  if (!is_device_memory(begin)) return "";
  const std::lock_guard guard(lock);
  const Block* block = block_at(begin);
  if (!block) return "no allocation";
  if (block->state == State::freed) return text_of(*block);
  if (!block->painted) return text_of(*block) + " before it was allocated in stream order";
  const auto* from = static_cast<const char*>(begin);
  if (from + bytes > block->allocation.begin + block->capacity) return "more than " + text_of(*block);
  return "";
}

std::vector<std::string> check_blocks(int device) {
  const std::lock_guard guard(lock);
  std::vector<std::string> wrong;
  for (auto& [begin, block] : arenas[device].blocks) {
    std::string text = block.state == State::live ? check_zones(block) : "";
    if (text.empty()) text = check_freed(block, kChecked);
    if (text.empty()) continue;
    wrong.push_back(std::move(text));
    block.poisoned = false;
    if (block.painted && !with_asan()) paint_zones(block);  // so that it is reported once
  }
  return wrong;
}

void forget_freed(int device) {
  const std::lock_guard guard(lock);
  for (auto& [begin, block] : arenas[device].blocks) block.poisoned = false;
}

std::string describe_address(const char* address) {
  char text[32];
  std::snprintf(text, sizeof text, "%p", static_cast<const void*>(address));
  if (!is_device_memory(address)) return std::string(text) + ", which is no memory of a device";
  const bool locked = lock.try_lock();
  const Block* block = block_at(address);
  std::string where =
      block ? ", byte " + std::to_string(address - block->allocation.begin) + " of " + text_of(*block)
            : ", which was never allocated";
  if (locked) lock.unlock();
  return text + where;
}

std::size_t live_bytes_of(int device) {
  const std::lock_guard guard(lock);
  std::size_t bytes = 0;
  for (const auto& [begin, block] : arenas[device].blocks) {
    if (block.state == State::live) bytes += block.allocation.bytes;
  }
  return bytes;
}

std::size_t used_bytes_of(int device) {
  const std::lock_guard guard(lock);
  return arenas[device].used;
}

std::size_t pool_bytes(const void* pool, bool freed_too) {
  const std::lock_guard guard(lock);
  std::size_t bytes = 0;
  for (const Arena& arena : arenas) {
    for (const auto& [begin, block] : arena.blocks) {
      const bool counts = block.state == State::live || (freed_too && !block.trimmed);
      if (block.allocation.pool == pool && counts) bytes += block.capacity;
    }
  }
  return bytes;
}

void trim_pool(const void* pool, std::size_t keep) {
  std::size_t held = pool_bytes(pool, true);
  const std::lock_guard guard(lock);
  for (Arena& arena : arenas) {
    for (auto& [begin, block] : arena.blocks) {
      if (block.allocation.pool != pool || block.state != State::freed || block.trimmed || held <= keep)
        continue;
      block.trimmed = true;
      arena.used -= block.capacity;
      held -= block.capacity;
    }
  }
}

}  // namespace heddle::emulated_gpu
