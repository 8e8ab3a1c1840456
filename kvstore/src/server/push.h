// What a key of a server keeps until its time has come: pushes of later rounds, and requests.
#pragma once

#include <cstdint>

#include <heddle/ndarray.h>

#include "server/row_lists.h"
#include "wire/messages.h"

namespace heddle::kv_detail {

// A push that has come completely.
struct Push {
  NDArray value{};  // undefined: an overwrite of another rank than 0, whose value does not count
  bool overwrite = false;
  double lr = 0, scale = 1;
  NDArray rows{};  // i64 (k), if `value` has (k, n) values of these rows only

  std::uint64_t bytes() const;
};

// An init, a pull or a get_state that cannot be answered yet.
struct WaitingRequest {
  std::uint32_t rank;
  Request request;
  RowList rows{};  // of a pull of some rows
};

}  // namespace heddle::kv_detail
