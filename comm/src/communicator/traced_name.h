// The name of a call's op, which traces show.
#pragma once

#include "core/collective.h"

namespace heddle::comm_detail {

// "all_reduce 4096 B" while a trace is recorded, so that the trace shows how much was sent; otherwise "all_reduce". The
// text lives as long as the process. Any thread.
const char* traced_name(Kind kind, std::size_t bytes);

}  // namespace heddle::comm_detail
