// Environment variables.
#pragma once

#include <string>

namespace heddle::net_detail {

std::string variable(const char* name);  // value of the variable; empty if it is not set
// Whether the variable is 1 or on. Throws InvalidArgument naming the variable if it is neither that nor 0, off or
// empty.
bool flag_of(const char* name);

}  // namespace heddle::net_detail
