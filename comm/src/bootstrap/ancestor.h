// Finds ancestors of this process.
#pragma once

#include <string>

namespace heddle::comm_detail {

// The nearest ancestor whose command has this name, as "PID-STARTTIME", which identifies a process of this host; empty
// if there is none, or /proc does not tell.
std::string ancestor_called(const std::string& name);

}  // namespace heddle::comm_detail
