// Reports the server's state to a service manager, such as systemd.
#pragma once

#include <string>

namespace heddle::tool {

// Sends lines such as "READY=1\nSTATUS=..." to the socket that NOTIFY_SOCKET names, as sd_notify(3) says.
// Returns false if there is no such socket, or nothing receives at it: a server also runs without.
bool notify_manager(const std::string& state) noexcept;

}  // namespace heddle::tool
