// Tells a service manager, such as systemd, how far the server is.
#pragma once

#include <string>

namespace heddle::tool {

// Sends lines such as "READY=1\nSTATUS=..." to the socket that NOTIFY_SOCKET names, as sd_notify(3) says. Returns false
// if there is none or if nobody takes them: a server runs without.
bool notify_manager(const std::string& state) noexcept;

}  // namespace heddle::tool
