// A connection between two processes of one host: a ring buffer in shared memory for each direction, and a socket that
// wakes a sleeping process and shows when the other one has ended.
#pragma once

#include <atomic>

#include "connection/connection.h"

namespace heddle::net_detail {

// The ring buffer of one direction; all zeros is an empty one. The writer stores the data and the fields of the first
// cache line, the reader those of the second; each side also resets the other's sleep flag when it wakes it.
struct alignas(64) Ring {
  static constexpr std::size_t kBytes = 128 << 10;  // a power of two; small enough to stay in the cache

  std::atomic<std::uint64_t> written;            // number of bytes written so far
  std::atomic<std::uint32_t> finished;           // whether the writer has called finish_sending()
  std::atomic<std::uint32_t> writer_sleeps;      // whether the writer has to be woken
  alignas(64) std::atomic<std::uint64_t> taken;  // number of bytes taken so far
  std::atomic<std::uint32_t> reader_sleeps;
  alignas(64) std::byte data[kBytes];
};

// The two ends use the same rings, with `out` and `in` exchanged. The connection keeps `memory` alive. `bell` must have
// no unread data.
std::unique_ptr<Connection> ring_connection(std::unique_ptr<Connection> bell, Ring& out, Ring& in,
                                            std::shared_ptr<void> memory);

}  // namespace heddle::net_detail
