// The thread of a kernel and its operations on the emulated GPU; gpu/cuda_thread.h has the same for nvcc. Included by
// gpu/kernel.h. The functions that are only declared here are in tests/emulated_gpu/executor.
#pragma once

#include <cstdint>
#include <cstring>
#include <source_location>
#include <typeinfo>

#include "gpu/kernel.h"

#define HEDDLE_DEVICE
#define HEDDLE_UNROLL
// HEDDLE_SHARED(thread, name, type): a variable in the block's shared memory, not initialised.
#define HEDDLE_SHARED(thread, name, ...)                             \
  using name##_type = ::heddle::on_gpu::Identity<__VA_ARGS__>::type; \
  static char name##_key;                                            \
  auto& name = *static_cast<name##_type*>((thread).shared(&name##_key, sizeof(name##_type), #name))

namespace heddle::on_gpu {

class Thread {
 public:
  using Where = std::source_location;  // the line of an operation, for error messages
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  uint3 thread_index() const { return thread_; }
  uint3 block_index() const { return block_; }
  dim3 block_dim() const { return block_dim_; }
  dim3 grid_dim() const { return grid_dim_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  int lane() const { return rank_ % kWarp; }
  int warp() const { return rank_ / kWarp; }
  long long global_index() const { return static_cast<long long>(block_.x) * block_dim_.x + thread_.x; }
  long long global_size() const { return static_cast<long long>(grid_dim_.x) * block_dim_.x; }
  template <class T> T* dynamic_shared() { return static_cast<T*>(shared(nullptr, 0, "dynamic")); }
  // The block's variable with that key; with a null key the dynamic shared memory.
  void* shared(const void* key, std::size_t bytes, const char* name);

  void barrier(Where where = Where::current()) { block_barrier(false, where); }
  int barrier_count(bool what, Where where = Where::current()) { return block_barrier(what, where); }
  bool barrier_and(bool what, Where where = Where::current()) { return block_barrier(!what, where) == 0; }
  bool barrier_or(bool what, Where where = Where::current()) { return block_barrier(what, where) != 0; }
  void warp_barrier(unsigned mask = kAllLanes, Where where = Where::current());

  template <class T>
  T shuffle(T value, int lane, unsigned mask = kAllLanes, int width = kWarp, Where where = Where::current()) {
    return exchanged(value, (this->lane() & -width) | (lane & (width - 1)), mask, where);
  }
  template <class T>
  T shuffle_up(T value, unsigned by, unsigned mask = kAllLanes, int width = kWarp,
               Where where = Where::current()) {
    const int from = lane() - static_cast<int>(by);
    return exchanged(value, from < (lane() & -width) ? lane() : from, mask, where);
  }
  template <class T>
  T shuffle_down(T value, unsigned by, unsigned mask = kAllLanes, int width = kWarp,
                 Where where = Where::current()) {
    const int from = lane() + static_cast<int>(by);
    return exchanged(value, from >= (lane() & -width) + width ? lane() : from, mask, where);
  }
  template <class T>
  T shuffle_xor(T value, int with, unsigned mask = kAllLanes, int width = kWarp,
                Where where = Where::current()) {
    const int from = lane() ^ with;
    return exchanged(value, from >= (lane() & -width) + width ? lane() : from, mask, where);
  }
  unsigned ballot(bool what, unsigned mask = kAllLanes, Where where = Where::current()) {
    return match(what ? 1 : 0, 1, mask, where);
  }
  bool any(bool what, unsigned mask = kAllLanes, Where where = Where::current()) {
    return match(what ? 1 : 0, 1, mask, where) != 0;
  }
  bool all(bool what, unsigned mask = kAllLanes, Where where = Where::current()) {
    return match(what ? 0 : 1, 1, mask, where) == 0;
  }
  template <class T> unsigned match_any(T value, unsigned mask = kAllLanes, Where where = Where::current()) {
    return match(bits_of(value), bits_of(value), mask, where);
  }

  long long clock();  // ticks of no fixed length
  void pause();       // lets other threads run, for loops that wait
  [[noreturn]] void trap();

 protected:
  Thread() = default;
  uint3 thread_{}, block_{};
  dim3 block_dim_, grid_dim_;
  int rank_ = 0, size_ = 0;

 private:
  int block_barrier(bool what, const Where& where);  // returns in how many threads `what` is true
  std::uint64_t exchange(std::uint64_t value, int from, unsigned mask, const Where& where);
  // The lanes of the mask whose value equals `wanted`.
  unsigned match(std::uint64_t value, std::uint64_t wanted, unsigned mask, const Where& where);

  template <class T> static std::uint64_t bits_of(T value) {
    static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>, "a shuffled value has 8 bytes at most");
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    return bits;
  }
  template <class T> T exchanged(T value, int from, unsigned mask, const Where& where) {
    const std::uint64_t bits = exchange(bits_of(value), from, mask, where);
    std::memcpy(&value, &bits, sizeof(T));
    return value;
  }
};

namespace emulated {

// What cudaLaunchKernel gets in place of a function.
struct Kernel {
  static constexpr std::uint64_t kMagic = 0x4c454e52454b5048;
  std::uint64_t magic = kMagic;
  const std::type_info* type;
  std::size_t bytes;
  void (*run)(const void* kernel, Thread& thread);
};

template <class K>
inline constexpr Kernel kernel_of{
    .type = &typeid(K), .bytes = sizeof(K), .run = [](const void* kernel, Thread& thread) {
      (*static_cast<const K*>(kernel))(thread);
    }};

}  // namespace emulated

// What cudaLaunchKernel takes for the kernel type K.
template <class K> const void* entry() { return &emulated::kernel_of<K>; }

}  // namespace heddle::on_gpu

#include "gpu/emulated_atomics.h"
