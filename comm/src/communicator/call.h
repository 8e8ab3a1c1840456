// A call of a communicator on its way.
#pragma once

#include <memory>
#include <optional>

#include "core/collective.h"

namespace heddle::comm_detail {

struct Call {
  Collective what;  // without memory until the arrays are there
  NDArray in{}, out{};
  std::optional<Completion> completion{};
  std::shared_ptr<Call> instead{};        // has its place to come: the call was skipped before
  bool there = false, forgotten = false;  // under CommState's mutex
};

}  // namespace heddle::comm_detail
