// Why a library could not listen at an address, where it does not say.
#pragma once

#include <string>

namespace heddle::tool {

// "'nowhere' is no host: Name or service not known", "Address already in use"; `address` is HOST:PORT.
std::string listen_problem(const std::string& address);

}  // namespace heddle::tool
