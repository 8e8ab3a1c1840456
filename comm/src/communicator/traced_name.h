// What a call is named in a trace.
#pragma once

#include "core/collective.h"

namespace heddle::comm_detail {

// "all_reduce 4096 B" while a trace is recorded, since what reads traces wants to know how much went where; else
// "all_reduce". Kept for the process's life, one for each kind and size.
const char* traced_name(Kind kind, std::size_t bytes);

}  // namespace heddle::comm_detail
