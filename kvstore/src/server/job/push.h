// What a key of a server keeps until it can be handled: pushes of later rounds, and requests.
#pragma once

#include <cstdint>
#include <list>
#include <memory>

#include <heddle/compression.h>
#include <heddle/ndarray.h>

#include "server/job/row_lists.h"
#include "wire/messages.h"

namespace heddle::kv_detail {

// A push that has been received completely.
struct Push {
  NDArray value{};  // undefined: an overwrite of a rank other than 0, which has no value
  bool overwrite = false;
  double lr = 0, scale = 1;
  NDArray rows{};                 // i64 (k): the rows that `value` (k, n) has; undefined: `value` is whole
  std::uint64_t state_bytes = 0;  // bytes of state that `rows` will need, and do not have yet

  std::uint64_t bytes() const;
};

// A push, or a value, of which pieces have come.
struct Incoming {
  NDArray memory{}, decoded{};
  std::uint64_t filled = 0, row_bytes = 0;
  std::shared_ptr<const Codec> codec{};  // codec of a compressed push; null: none
};

// A worker's pushes of a key.
struct WorkerPushes {
  std::uint64_t clock = 0;  // pushes that the server has had
  // Pushes that others do not wait for; sync: rounds that its pulls do not wait for
  std::uint64_t missed = 0;
  std::list<Push> pushes{};  // sync: pushes of later rounds; an empty list allocates nothing
  std::unique_ptr<Incoming> incoming{};
};

// Bytes that a key takes, without its overhead.
struct KeyMemory {
  std::uint64_t value = 0;
  std::uint64_t state = 0;    // optimizer's state, with what accepted pushes will add
  std::uint64_t waiting = 0;  // pushes that wait, or are being received
  std::uint64_t total() const { return value + state + waiting; }
};

// An init, a pull or a get_state that cannot be answered yet.
struct WaitingRequest {
  std::uint32_t rank;
  Request request;
  RowList rows{};  // the rows, of a pull of some rows
};

}  // namespace heddle::kv_detail
