// A call of a communicator on its way.
#pragma once

#include <memory>
#include <optional>

#include "core/collective.h"

namespace heddle::comm_detail {

struct Call {
  Collective what;  // without memory until the arrays are there
  NDArray in{}, out{};
  Var result{};  // what its op mutates, for who waits for it
  std::optional<Completion> completion{};
  std::shared_ptr<Call> instead{};  // has its place to come: the call was skipped before
  // Under CommState's mutex. `begun`: its op has run; `abandoned`: whose memory it is does not wait for it.
  bool there = false, forgotten = false, begun = false, abandoned = false;
};

}  // namespace heddle::comm_detail
