// Expands the optimizer's state of some rows to arrays of the whole value.
#pragma once

#include <cstdint>

#include "wire/state_blob.h"

namespace heddle::kv_detail {

// Returns `state` with an entry for each of `rows` rows, 0 for rows without state. State of a whole value,
// which has no array "rows", is returned unchanged. Throws MalformedMessage.
StateArrays whole_state(const StateArrays& state, std::int64_t rows);

}  // namespace heddle::kv_detail
