// A call's name in traces.
#pragma once

#include "core/collective.h"

namespace heddle::comm_detail {

// "all_reduce 4096 B" while a trace is recorded, since tools that read traces need the size; else "all_reduce". The
// text lives as long as the process.
const char* traced_name(Kind kind, std::size_t bytes);

}  // namespace heddle::comm_detail
