#include "server/listen_problem.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

namespace heddle::tool {

std::string listen_problem(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos) return "want HOST:PORT";
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{}, *first = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int wrong = ::getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &first);
  if (wrong != 0) {
    return "'" + host +
           "' is no host: " + (wrong == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(wrong));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(first, ::freeaddrinfo);
  const int socket = ::socket(first->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return std::strerror(errno);
  const bool good = ::bind(socket, first->ai_addr, first->ai_addrlen) == 0 && ::listen(socket, 1) == 0;
  const std::string problem = good ? "it was in use" : std::strerror(errno);
  ::close(socket);
  return problem;
}

}  // namespace heddle::tool
