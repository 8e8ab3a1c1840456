// Processes above this one.
#pragma once

#include <string>

namespace heddle::comm_detail {

// The nearest ancestor whose command has this name, as "PID-STARTTIME", which no other process of this host has had or
// will have while it runs; empty if there is none, or the system does not say.
std::string ancestor_called(const std::string& name);

}  // namespace heddle::comm_detail
