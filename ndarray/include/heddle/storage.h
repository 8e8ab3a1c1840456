// A storage is one allocation and one engine variable. An array and its views share a storage.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <heddle/check.h>
#include <heddle/device.h>
#include <heddle/engine.h>

namespace heddle {

class NDArray;
namespace ndarray_detail {
struct SiteCount;
[[noreturn]] void refuse_without_engine();
}  // namespace ndarray_detail

// The memory of an array and of its views, and the var that stands for it.
class Storage {
 public:
  // Memory is taken from the device's caching allocator at the first data(); on a GPU by the op that is issued first.
  // It is returned when the last array and the last op that hold this storage are gone. InvalidArgument: no such GPU.
  Storage(Engine& engine, Device device, std::size_t bytes);
  // Uses memory that the caller has allocated on that device, aligned for the elements, and holds the pointer as long
  // as the storage lives.
  Storage(Engine& engine, Device device, std::size_t bytes, std::shared_ptr<std::byte> memory);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  const Var& var() const { return var_; }
  Device device() const { return device_; }
  std::size_t bytes() const { return bytes_; }
  // Throws Error once the engine is destroyed: the array's values can be read then, but no op can use it.
  Engine& engine() const {
    Engine* engine = engine_->load(std::memory_order_relaxed);
    if (!engine) [[unlikely]]
      ndarray_detail::refuse_without_engine();
    return *engine;
  }
  // The engine; null once it is destroyed.
  Engine* engine_if_alive() const { return engine_->load(std::memory_order_relaxed); }

  // The memory, 64-byte aligned. Call only inside an op that declared var(), or after waiting for var(). The
  // access checker (check.h) compares `touch` with what the op declared, and throws UndeclaredAccess,
  // describing the array if one is given. Throws OutOfMemory (array_error.h), and Error for memory that the
  // CPU cannot reach.
  std::byte* data(check::AccessKind touch = check::AccessKind::write, const NDArray* seen_as = nullptr);
  // As data(), for ops on streams of the device, which do not dereference the pointer on the CPU.
  std::byte* device_data(check::AccessKind touch = check::AccessKind::write,
                         const NDArray* seen_as = nullptr);

  // The memory, for comparison alone; null if the storage has none yet.
  const void* address() const { return data_.load(std::memory_order_acquire); }

  // Returns the memory to the allocator; the next data() takes new memory, with undetermined values. Call only while no
  // op uses it. Does nothing with memory that the caller has allocated.
  void drop_memory() noexcept;

  // Exchanges memory and devices with a storage of as many bytes. Call only while no op uses either, nor is pushed.
  void exchange_memory(Storage& other) noexcept;

  // The number of ops pushed so far that change this storage. Autograd uses it to detect that a saved value
  // was overwritten.
  std::uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  // Counts one more op that changes this storage.
  void bump_version() {
    version_.fetch_add(1, std::memory_order_relaxed);
    if (check::enabled()) record_.pushed();
  }

 private:
  Var var_;
  const std::atomic<Engine*>* engine_;  // null once the engine is destroyed; var_ keeps the pointer valid
  Device device_;
  std::size_t bytes_;
  // Memory that the caller has allocated; null if the allocator provides the memory.
  std::shared_ptr<std::byte> lent_;
  std::atomic<std::byte*> data_{nullptr};
  std::atomic<std::uint64_t> version_{0};
  check::Record record_;
  // Counter of the line that made the array; null if memory is not counted by line.
  ndarray_detail::SiteCount* const count_;
};

// Statistics of the caching CPU allocator. Thread-safe.
struct AllocatorStats {
  std::size_t in_use;  // bytes handed out
  std::size_t cached;  // bytes kept for reuse
  std::size_t peak;    // most bytes handed out so far
};
AllocatorStats cpu_allocator_stats();
void cpu_allocator_trim();  // returns cached memory to the system

}  // namespace heddle
