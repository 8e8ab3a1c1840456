// One call of a collective on arrays of the host, from its push until its op ends.
#pragma once

#include <memory>
#include <optional>

#include "core/collective.h"

namespace heddle::comm_detail {

struct Call {
  Collective what;  // its pointers to memory are set when its op runs
  NDArray in{}, out{};
  Var result{};                            // mutated by the call's op: who waits for the call waits for it
  std::optional<Completion> completion{};  // of the call's op, once the op has run
  // Guarded by CallQueue's mutex:
  std::shared_ptr<Call> replacement{};  // enqueued instead of this call, whose op was skipped before
  bool ready = false;                   // its arrays are computed; false again once the call has run
  bool op_has_run = false;
  bool cancelled = false;  // its op could not be pushed
  bool abandoned = false;  // the caller has taken its memory back before the op ran
};

}  // namespace heddle::comm_detail
