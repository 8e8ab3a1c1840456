// Finds ancestors of this process.
#pragma once

#include <string>

namespace heddle::comm_detail {

// The nearest ancestor whose command has this name, as "PID-STARTTIME", which identifies a process of this
// host. Empty if there is no such ancestor, or /proc cannot be read.
std::string ancestor_called(const std::string& name);

}  // namespace heddle::comm_detail
