// What only a start would find.
#pragma once

#include <string>

namespace heddle::tool {

// Why nobody can be served at this address with these keys; empty: one can. It listens for a moment, at any port.
std::string why_not_served(const std::string& listen, const std::string& transport, const std::string& keys);
// Why this process can never connect to that address, wherever it may be; empty: nothing is known. It begins to connect.
std::string why_not_reached(const std::string& address, const std::string& transport,
                            const std::string& keys);

}  // namespace heddle::tool
