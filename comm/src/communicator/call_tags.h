// The tags that the calling thread's calls carry: see call_tag.h.
#pragma once

#include "core/collective.h"

namespace heddle {

struct CallTags {
  // Gives the record the calling thread's tag on that communicator, if it has one.
  static void apply(const void* ranks, comm_detail::CallRecord& record);
};

}  // namespace heddle
