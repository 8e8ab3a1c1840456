// One call of a collective on arrays of the host, from its push until its op ends.
#pragma once

#include <memory>
#include <optional>

#include "core/collective.h"

namespace heddle::comm_detail {

struct Call {
  Collective what;  // the call; its pointers to memory are set when its op runs
  NDArray in{}, out{};
  Var result{};  // mutated by the call's op; waiting for the call is waiting for this var
  std::optional<Completion> completion{};  // completes the call's op; set when the op has run
  // Guarded by CallQueue's mutex:
  std::shared_ptr<Call> replacement{};  // enqueued in place of this call, whose op was skipped before
  bool ready = false;                   // whether the call's arrays are computed, and the call has not run
  bool op_has_run = false;
  bool cancelled = false;  // whether the call's op could not be pushed
  bool abandoned = false;  // whether the caller reclaimed its memory before the op ran
};

}  // namespace heddle::comm_detail
