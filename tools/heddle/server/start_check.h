// Checks of settings that need the network: whether this process could listen and connect.
#pragma once

#include <string>

namespace heddle::tool {

// The reason why a server cannot listen at this address with these keys; empty if it can. Listens for a
// moment at that host, at any port.
std::string why_not_served(const std::string& listen, const std::string& transport, const std::string& keys);
// The reason why this process can never connect to the address; empty if none is found. Starts to connect,
// but does not wait.
std::string why_not_reached(const std::string& address, const std::string& transport,
                            const std::string& keys);

}  // namespace heddle::tool
