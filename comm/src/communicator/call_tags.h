// The tags of calls that the current thread makes: see heddle/call_tag.h.
#pragma once

#include "core/collective.h"

namespace heddle {

struct CallTags {
  // Sets the record's tag to the current thread's tag on a communicator, if there is one. The communicator is named by
  // the address of its var.
  static void apply(const void* ranks, comm_detail::CallRecord& record);
};

}  // namespace heddle
