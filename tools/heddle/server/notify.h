// Reports the server's state to a service manager, such as systemd.
#pragma once

#include <string>

namespace heddle::tool {

// Sends lines such as "READY=1\nSTATUS=..." to the socket that NOTIFY_SOCKET names, as sd_notify(3) says.
// Returns false if there is no such socket or nobody receives at it; this is no error for a server.
bool notify_manager(const std::string& state) noexcept;

}  // namespace heddle::tool
