// The state that a server keeps of some rows, as arrays of the whole value.
#pragma once

#include <cstdint>

#include "wire/state_blob.h"

namespace heddle::kv_detail {

// The same state with an entry for each of `rows` rows, 0 for those that it does not name. State of a whole value, which has no
// "rows", stays as it is. Throws MalformedMessage.
StateArrays whole_state(const StateArrays& state, std::int64_t rows);

}  // namespace heddle::kv_detail
