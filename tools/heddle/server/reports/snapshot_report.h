// The content of a snapshot as a table for people.
#pragma once

#include <string>

#include "snapshot/snapshot_index.h"

namespace heddle::tool {

std::string snapshot_text(const kv_detail::SnapshotIndex& index);

}  // namespace heddle::tool
