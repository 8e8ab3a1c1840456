// A connection between two processes of one host: a ring of memory each way, and a socket that wakes who sleeps and tells
// when the other one is gone.
#pragma once

#include <atomic>

#include "net/connection.h"

namespace heddle::comm_detail {

// One way. All zero is an empty one. Only the writer writes what stands first, only the reader what stands second.
struct alignas(64) Ring {
  static constexpr std::size_t kBytes = 128 << 10;  // a power of two; small enough to stay in the cache

  std::atomic<std::uint64_t> written;            // bytes
  std::atomic<std::uint32_t> finished;           // nothing more is written
  std::atomic<std::uint32_t> writer_sleeps;      // and has to be woken
  alignas(64) std::atomic<std::uint64_t> taken;  // bytes
  std::atomic<std::uint32_t> reader_sleeps;
  alignas(64) std::byte data[kBytes];
};

// Both ends have the same memory; what one writes to, the other one reads from. `memory` is kept for as long as needed.
// `bell` has carried nothing that is still to be read.
std::unique_ptr<Connection> ring_connection(std::unique_ptr<Connection> bell, Ring& out, Ring& in,
                                            std::shared_ptr<void> memory);

}  // namespace heddle::comm_detail
