// What a key of a server keeps until its time has come: pushes of later rounds, and requests.
#pragma once

#include <cstdint>
#include <list>
#include <memory>

#include <heddle/compression.h>
#include <heddle/ndarray.h>

#include "server/row_lists.h"
#include "wire/messages.h"

namespace heddle::kv_detail {

// A push that has come completely.
struct Push {
  NDArray value{};  // undefined: an overwrite of another rank than 0, whose value does not count
  bool overwrite = false;
  double lr = 0, scale = 1;
  NDArray rows{};                 // i64 (k), if `value` has (k, n) values of these rows only
  std::uint64_t state_bytes = 0;  // of state that these rows may need, and do not have yet

  std::uint64_t bytes() const;
};

// A push, or a value, of which pieces have come.
struct Incoming {
  NDArray memory{}, decoded{};
  std::uint64_t filled = 0, row_bytes = 0;
  std::shared_ptr<const Codec> codec{};  // of a compressed push
};

// What a key keeps of a worker.
struct WorkerPushes {
  std::uint64_t clock = 0;   // pushes that have come
  std::uint64_t missed = 0;  // pushes that nobody waits for, or rounds that its pulls do not
  std::list<Push> pushes{};  // sync: those of later rounds; empty, it has no memory
  std::unique_ptr<Incoming> incoming{};
};

// Bytes that a key takes, besides its overhead.
struct KeyMemory {
  std::uint64_t value = 0;
  std::uint64_t state = 0;    // of the optimizer, also what the pushes that were accepted will need
  std::uint64_t waiting = 0;  // pushes, also those of which pieces have come
  std::uint64_t total() const { return value + state + waiting; }
};

// An init, a pull or a get_state that cannot be answered yet.
struct WaitingRequest {
  std::uint32_t rank;
  Request request;
  RowList rows{};  // of a pull of some rows
};

}  // namespace heddle::kv_detail
