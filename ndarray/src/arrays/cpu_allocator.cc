// Blocks come in size classes, four an octave, and each class keeps a list of freed blocks. Cached blocks and
// the slack behind a request are poisoned for AddressSanitizer, so that caching hides neither a use after
// free nor an overrun. The lists are outside the blocks, because all of a block is poisoned.
#include "arrays/cpu_allocator.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <mutex>
#include <new>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include <sanitizer/asan_interface.h>

#include <heddle/memory.h>
#include <heddle/storage.h>

namespace heddle {

namespace {

constexpr std::size_t kAlign = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kAlwaysCached = std::size_t{64} << 20;
constexpr std::size_t kLargest = std::numeric_limits<std::size_t>::max() / 4;

struct Bin {
  std::mutex mutex;  // guards `free`; never held while the mutex of another Bin is taken
  std::vector<std::byte*> free;
  std::atomic<bool> used{false};  // whether this Bin was used since evict() last looked
};

std::size_t bin_of(std::size_t block_size) {
  const auto octave = static_cast<std::size_t>(std::bit_width(block_size) - 1);
  const std::size_t quarter = (block_size >> (octave - 2)) & 3;
  return octave * 4 + quarter;
}

// The limit in a file of a memory control group; "max" and numbers near 2^63 mean no limit.
std::size_t limit_in(const std::string& file) {
  std::size_t bytes = 0;
  return std::ifstream(file) >> bytes ? bytes : kLargest;
}

// The smallest limit of this process's control groups, version 2 ("0::/path") or 1 ("7:memory:/path"), and of
// the groups above them. In a container a group's path may not exist, since the container's own group is
// mounted as the root.
std::size_t control_group_limit() {
  std::size_t limit = kLargest;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool unified = controllers == ",,";
    if (!unified && controllers.find(",memory,") == std::string::npos) continue;
    const std::string root = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    const std::string file = unified ? "/memory.max" : "/memory.limit_in_bytes";
    for (std::string path = line.substr(second + 1);; path.resize(path.rfind('/'))) {
      limit = std::min(limit, limit_in(root + path + file));
      if (path.find('/') == std::string::npos) break;
    }
  }
  return limit;
}

std::size_t memory_of_process() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGE_SIZE);
  const std::size_t memory = pages > 0 && page > 0
                                 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page)
                                 : std::size_t{4} << 30;
  return std::min(memory, control_group_limit());
}

class CpuAllocator {
 public:
  std::byte* allocate(std::size_t bytes) {
    const std::size_t size = ndarray_detail::cpu_block_size(bytes);
    std::byte* block = take_cached(size);
    if (!block) block = take_new(size);
    count_in_use(size);
    ASAN_UNPOISON_MEMORY_REGION(block, size);
    ASAN_POISON_MEMORY_REGION(block + bytes, size - bytes);
    return block;
  }

  void deallocate(std::byte* block, std::size_t bytes) noexcept {
    const std::size_t size = ndarray_detail::cpu_block_size(bytes);
    in_use_.fetch_sub(size, std::memory_order_relaxed);
    // The block is counted before it is in the list, since a thread that takes it at once must not count
    // below zero.
    const std::size_t cached = cached_.fetch_add(size, std::memory_order_relaxed) + size;
    if (!keep(block, size)) {
      cached_.fetch_sub(size, std::memory_order_relaxed);
      ASAN_UNPOISON_MEMORY_REGION(block, size);
      to_system(block, size);
    } else if (cached > cache_limit()) {
      evict();
    }
  }

  void set_most_cached(std::size_t bytes) noexcept {
    most_cached_.store(bytes, std::memory_order_relaxed);
    if (cached_.load(std::memory_order_relaxed) > cache_limit()) evict();
  }

  void trim() noexcept {
    for (std::size_t i = 0; i < bins_.size(); ++i) {
      while (release_one(i)) {
      }
    }
  }

  AllocatorStats stats() const {
    return {in_use_.load(std::memory_order_relaxed), cached_.load(std::memory_order_relaxed),
            peak_.load(std::memory_order_relaxed)};
  }

 private:
  static std::size_t size_of_bin(std::size_t bin) { return (std::size_t{4} + bin % 4) << (bin / 4) >> 2; }

  // A program is likely to use as much memory again as it has used at one time. The size classes reach their maxima at
  // different times, so that repeating the same work takes more blocks than the peak. The limit is for programs
  // whose arrays change their sizes, which would fill every size class.
  std::size_t cache_limit() const noexcept {
    const std::size_t peak = peak_.load(std::memory_order_relaxed);
    return std::min(most_cached_.load(std::memory_order_relaxed), std::max(kAlwaysCached, peak + peak / 2));
  }

  bool release_one(std::size_t bin) noexcept {
    std::byte* block = pop(bins_[bin]);
    if (!block) return false;
    ASAN_UNPOISON_MEMORY_REGION(block, size_of_bin(bin));
    cached_.fetch_sub(size_of_bin(bin), std::memory_order_relaxed);
    to_system(block, size_of_bin(bin));
    return true;
  }

  // Frees blocks of size classes that were not used since the last round over all classes (the clock
  // algorithm).
  void evict() noexcept {
    const std::size_t limit = cache_limit();
    for (std::size_t turns = 0; turns < 3 * bins_.size(); ++turns) {
      const std::size_t bin = hand_.fetch_add(1, std::memory_order_relaxed) % bins_.size();
      if (bins_[bin].used.exchange(false, std::memory_order_relaxed)) continue;
      while (cached_.load(std::memory_order_relaxed) > limit && release_one(bin)) {
      }
      if (cached_.load(std::memory_order_relaxed) <= limit) return;
    }
  }

  bool keep(std::byte* block, std::size_t size) noexcept {
    Bin& bin = bins_[bin_of(size)];
    std::lock_guard lock(bin.mutex);
    try {
      bin.free.push_back(block);
    } catch (const std::bad_alloc&) {
      return false;
    }
    bin.used.store(true, std::memory_order_relaxed);
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

  // Blocks of huge pages are mapped one by one: malloc would keep freed ones of up to 32 MiB in its heap, where no
  // limit of ours counts them.
  static std::byte* from_system(std::size_t size) noexcept {
    if (size >= kHugePage) return map_huge(size);
    void* block = nullptr;
    return posix_memalign(&block, kAlign, size) == 0 ? static_cast<std::byte*>(block) : nullptr;
  }

  static void to_system(std::byte* block, std::size_t size) noexcept {
    if (size >= kHugePage) {
      munmap(block, size);
    } else {
      std::free(block);
    }
  }

  // Maps `size` bytes, a multiple of the system's page, that begin at a huge page.
  static std::byte* map_huge(std::size_t size) noexcept {
    void* const mapped =
        mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    auto* const first = static_cast<std::byte*>(mapped);
    const std::size_t before = (kHugePage - reinterpret_cast<std::uintptr_t>(first) % kHugePage) % kHugePage;
    std::byte* const block = first + before;
    if (before > 0) munmap(first, before);
    munmap(block + size, kHugePage - before);
    // Kernels read large arrays from end to end, where small pages cost most. An error is ignored, since
    // small pages work too.
    madvise(block, size / kHugePage * kHugePage, MADV_HUGEPAGE);
    return block;
  }

  void count_in_use(std::size_t size) noexcept {
    const std::size_t now = in_use_.fetch_add(size, std::memory_order_relaxed) + size;
    std::size_t peak = peak_.load(std::memory_order_relaxed);
    while (peak < now && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
    }
  }

  std::array<Bin, 256> bins_;
  std::atomic<std::size_t> most_cached_{memory_of_process() / 4};
  std::atomic<std::size_t> in_use_{0}, cached_{0}, peak_{0}, hand_{0};
};

// The allocator is never destroyed, since arrays in static variables free their memory during static
// destruction.
CpuAllocator& allocator() {
  static CpuAllocator& instance = *new CpuAllocator;
  return instance;
}

}  // namespace

namespace ndarray_detail {

std::size_t cpu_block_size(std::size_t bytes) {
  if (bytes > kLargest) throw std::bad_alloc();
  if (bytes <= kAlign) return kAlign;
  const std::size_t step = std::max(kAlign, std::bit_floor(bytes - 1) / 4);
  return (bytes + step - 1) / step * step;
}

std::byte* cpu_allocate(std::size_t bytes) { return allocator().allocate(bytes); }

void cpu_deallocate(std::byte* block, std::size_t bytes) noexcept { allocator().deallocate(block, bytes); }

}  // namespace ndarray_detail

AllocatorStats cpu_allocator_stats() { return allocator().stats(); }

void cpu_allocator_trim() { allocator().trim(); }

void cpu_allocator_cache_limit(std::size_t bytes) { allocator().set_most_cached(bytes); }

std::size_t usable_memory() { return memory_of_process(); }

}  // namespace heddle
