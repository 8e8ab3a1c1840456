// The tags that the calling thread's calls carry: see call_tag.h.
#pragma once

#include "core/collective.h"

namespace heddle {

struct CallTags {
  // Sets the record's tag to that of the calling thread on the communicator whose var is at `ranks`, if there is one.
  static void apply(const void* ranks, comm_detail::CallRecord& record);
};

}  // namespace heddle
