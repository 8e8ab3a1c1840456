// Checks that otherwise only a start would make.
#pragma once

#include <string>

namespace heddle::tool {

// Why a server cannot listen at this address with these keys; empty: it can. Listens briefly, at any port.
std::string why_not_served(const std::string& listen, const std::string& transport, const std::string& keys);
// Why this process can never connect to that address; empty: no reason found. Starts to connect.
std::string why_not_reached(const std::string& address, const std::string& transport,
                            const std::string& keys);

}  // namespace heddle::tool
