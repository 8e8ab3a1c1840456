#include "notify.h"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace heddle::tool {

bool notify_manager(const std::string& state) noexcept {
  const char* name = std::getenv("NOTIFY_SOCKET");
  if (!name) return false;
  const std::string_view path = name;
  sockaddr_un address{};
  const bool good =
      path.size() > 1 && path.size() < sizeof address.sun_path && (path[0] == '/' || path[0] == '@');
  if (!good) return false;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (path[0] == '@') address.sun_path[0] = '\0';  // an abstract socket name
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return false;
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  const ssize_t sent = ::sendto(socket, state.data(), state.size(), MSG_NOSIGNAL,
                                reinterpret_cast<const sockaddr*>(&address), length);
  ::close(socket);
  return sent == static_cast<ssize_t>(state.size());
}

}  // namespace heddle::tool
