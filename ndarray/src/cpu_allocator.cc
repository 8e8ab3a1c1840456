// Blocks come in size classes, four an octave, and each class keeps a list of the blocks it got back. Cached blocks
// and the slack behind a request are poisoned for AddressSanitizer, so that caching hides neither a use after free
// nor an overrun; the lists stand outside the blocks because all of a block is poisoned.
#include "cpu_allocator.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <new>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include <sanitizer/asan_interface.h>

#include <heddle/storage.h>

namespace heddle {

namespace {

constexpr std::size_t kAlign = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kLargest = std::numeric_limits<std::size_t>::max() / 4;

struct Bin {
  std::mutex mutex;  // guards free; never held while another is taken
  std::vector<std::byte*> free;
};

std::size_t bin_of(std::size_t block_size) {
  const auto octave = static_cast<std::size_t>(std::bit_width(block_size) - 1);
  const std::size_t quarter = (block_size >> (octave - 2)) & 3;
  return octave * 4 + quarter;
}

std::size_t default_cache_limit() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGE_SIZE);
  if (pages <= 0 || page <= 0) return std::size_t{1} << 30;
  return static_cast<std::size_t>(pages) / 4 * static_cast<std::size_t>(page);
}

class CpuAllocator {
 public:
  std::byte* allocate(std::size_t bytes) {
    const std::size_t size = detail::cpu_block_size(bytes);
    std::byte* block = take_cached(size);
    if (!block) block = take_new(size);
    count_in_use(size);
    ASAN_UNPOISON_MEMORY_REGION(block, size);
    ASAN_POISON_MEMORY_REGION(block + bytes, size - bytes);
    return block;
  }

  void deallocate(std::byte* block, std::size_t bytes) noexcept {
    const std::size_t size = detail::cpu_block_size(bytes);
    in_use_.fetch_sub(size, std::memory_order_relaxed);
    const bool room = cached_.fetch_add(size, std::memory_order_relaxed) + size <= cache_limit_;
    if (room && keep(block, size)) return;
    cached_.fetch_sub(size, std::memory_order_relaxed);
    ASAN_UNPOISON_MEMORY_REGION(block, size);
    std::free(block);
  }

  void trim() noexcept {
    for (std::size_t i = 0; i < bins_.size(); ++i) {
      while (std::byte* block = pop(bins_[i])) {
        ASAN_UNPOISON_MEMORY_REGION(block, size_of_bin(i));
        cached_.fetch_sub(size_of_bin(i), std::memory_order_relaxed);
        std::free(block);
      }
    }
  }

  AllocatorStats stats() const {
    return {in_use_.load(std::memory_order_relaxed), cached_.load(std::memory_order_relaxed),
            peak_.load(std::memory_order_relaxed)};
  }

 private:
  static std::size_t size_of_bin(std::size_t bin) { return (std::size_t{4} + bin % 4) << (bin / 4) >> 2; }

  bool keep(std::byte* block, std::size_t size) noexcept {
    Bin& bin = bins_[bin_of(size)];
    std::lock_guard lock(bin.mutex);
    try {
      bin.free.push_back(block);
    } catch (const std::bad_alloc&) {
      return false;
    }
    ASAN_POISON_MEMORY_REGION(block, size);
    return true;
  }

  static std::byte* pop(Bin& bin) noexcept {
    std::lock_guard lock(bin.mutex);
    if (bin.free.empty()) return nullptr;
    std::byte* block = bin.free.back();
    bin.free.pop_back();
    return block;
  }

  std::byte* take_cached(std::size_t size) noexcept {
    std::byte* block = pop(bins_[bin_of(size)]);
    if (block) cached_.fetch_sub(size, std::memory_order_relaxed);
    return block;
  }

  std::byte* take_new(std::size_t size) {
    std::byte* block = from_system(size);
    if (!block) {
      trim();
      block = from_system(size);
    }
    if (!block) throw std::bad_alloc();
    return block;
  }

  static std::byte* from_system(std::size_t size) noexcept {
    void* block = nullptr;
    const bool huge = size >= kHugePage;
    if (posix_memalign(&block, huge ? kHugePage : kAlign, size) != 0) return nullptr;
    // Big arrays are swept through from end to end, where small pages cost most; a refusal is harmless.
    if (huge) madvise(block, size / kHugePage * kHugePage, MADV_HUGEPAGE);
    return static_cast<std::byte*>(block);
  }

  void count_in_use(std::size_t size) noexcept {
    const std::size_t now = in_use_.fetch_add(size, std::memory_order_relaxed) + size;
    std::size_t peak = peak_.load(std::memory_order_relaxed);
    while (peak < now && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
    }
  }

  std::array<Bin, 256> bins_;
  const std::size_t cache_limit_ = default_cache_limit();
  std::atomic<std::size_t> in_use_{0}, cached_{0}, peak_{0};
};

// Never destroyed: arrays in static variables give their memory back after any static would be gone.
CpuAllocator& allocator() {
  static CpuAllocator& instance = *new CpuAllocator;
  return instance;
}

}  // namespace

namespace detail {

std::size_t cpu_block_size(std::size_t bytes) {
  if (bytes > kLargest) throw std::bad_alloc();
  if (bytes <= kAlign) return kAlign;
  const std::size_t step = std::max(kAlign, std::bit_floor(bytes - 1) / 4);
  return (bytes + step - 1) / step * step;
}

std::byte* cpu_allocate(std::size_t bytes) { return allocator().allocate(bytes); }

void cpu_deallocate(std::byte* block, std::size_t bytes) noexcept { allocator().deallocate(block, bytes); }

}  // namespace detail

AllocatorStats cpu_allocator_stats() { return allocator().stats(); }

void cpu_allocator_trim() { allocator().trim(); }

}  // namespace heddle
