#include "bootstrap/rendezvous_socket.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <netinet/in.h>
#include <netinet/tcp.h>

#include "connection/interfaces.h"
#include "connection/socket.h"

namespace heddle::comm_detail {

using namespace net_detail;
namespace {

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  int family() const { return storage.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Socket stream_socket(int family) {
  Socket socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) throw CommError("no socket: " + last_error());
  return socket;
}

Address unix_address(const std::string& path) {
  Address address;
  auto& name = reinterpret_cast<sockaddr_un&>(address.storage);
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.c_str(), path.size() + 1);  // RendezvousAddress has checked the length
  address.length = sizeof name;
  return address;
}

// The addresses of a host and port. Empty if there is no such host; `why` then says why.
std::vector<Address> resolve(const std::string& host, const std::string& port, std::string& why) {
  addrinfo hints{}, *first = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int wrong = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &first); wrong != 0) {
    why = "'" + host + "' is no host: " + lookup_error(wrong);
    return {};
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(first, ::freeaddrinfo);
  std::vector<Address> all;
  for (const addrinfo* one = first; one; one = one->ai_next) {
    all.emplace_back();
    std::memcpy(&all.back().storage, one->ai_addr, one->ai_addrlen);
    all.back().length = one->ai_addrlen;
  }
  return all;
}

std::string text_of(const Address& address) {
  char text[NI_MAXHOST];
  const int error =
      ::getnameinfo(address.get(), address.length, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? text : "";
}

// The security of connections at an address. Unix sockets check the peer's user instead.
Security security_at(const RendezvousAddress& place, const Address& address) {
  if (place.is_unix) return {};
  const std::string numeric = text_of(address);
  return place.security.at(numeric, "the ranks would meet at " + place.text + " (" + numeric + ")");
}

// Debian's /etc/hosts gives a host's own name a loopback address, which ranks on other hosts cannot reach.
std::vector<Address> addresses_of(const RendezvousAddress& place, std::string& why) {
  if (place.is_unix) return {unix_address(place.path)};
  std::vector<Address> all = resolve(place.host, place.port, why);
  const bool named = place.host != "localhost" && !is_loopback_address(place.host);
  const bool reaches_only_here = !all.empty() && std::all_of(all.begin(), all.end(), [](const Address& one) {
    return is_loopback_address(text_of(one));
  });
  if (named && place.several_hosts && reaches_only_here)
    all = resolve(choose_address("", false), place.port, why);
  // Throws if ranks need keys at one of these addresses and there are none.
  for (const Address& one : all) security_at(place, one);
  return all;
}

bool same_user(const Socket& socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(socket.fd(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == ::geteuid();
}

// Connects a nonblocking socket. Returns 0 or errno.
int connect_within(const Socket& socket, const Address& address, int most_ms) {
  if (::connect(socket.fd(), address.get(), address.length) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd ready{socket.fd(), POLLOUT, 0};
  if (::poll(&ready, 1, most_ms) <= 0) return ETIMEDOUT;
  int error = 0;
  socklen_t length = sizeof error;
  return ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

std::string directory_of(const RendezvousAddress& place) {
  return place.path.substr(0, std::max<std::size_t>(place.path.rfind('/'), 1));
}

// The directory must belong to the user (or root), because others could guess the socket's name. It is made if it is
// the one that LaunchEnvironment chooses; a directory that the user has named must exist.
void prepare_directory(const RendezvousAddress& place) {
  const std::string directory = directory_of(place);
  if (directory.ends_with("/heddle-" + std::to_string(::getuid()))) ::mkdir(directory.c_str(), 0700);
  if (const std::string problem = missing_directory(place); !problem.empty()) throw CommError(problem);
  struct stat found {};
  if (::stat(directory.c_str(), &found) != 0) throw CommError(directory + ": " + last_error());
  if (found.st_uid != ::geteuid() && found.st_uid != 0) {
    throw CommError("the directory " + directory + " for the ranks' socket belongs to another user");
  }
}

[[noreturn]] void cannot_listen(const RendezvousAddress& place) {
  throw CommError("cannot listen at " + place.text + ": " + last_error());
}

// Removes the socket file that a killed job has left. False if a process still listens there.
bool remove_stale(const RendezvousAddress& place, const Address& address) {
  struct stat found {};
  if (::lstat(place.path.c_str(), &found) != 0) return errno == ENOENT;
  if (!S_ISSOCK(found.st_mode) || found.st_uid != ::geteuid()) {
    throw CommError("cannot listen at " + place.text + ": the path is in use by something else");
  }
  const Socket probe = stream_socket(AF_UNIX);
  if (::connect(probe.fd(), address.get(), address.length) == 0 || errno != ECONNREFUSED) return false;
  return ::unlink(place.path.c_str()) == 0 || errno == ENOENT;
}

}  // namespace

RendezvousAddress::RendezvousAddress(const LaunchEnvironment& job, const SecurityPolicy& policy)
    : text(job.rendezvous), several_hosts(job.local_size < job.size), security(policy) {
  constexpr std::size_t kLongestPath = sizeof(sockaddr_un::sun_path) - 1;
  is_unix = text.starts_with("unix:");
  if (is_unix) {
    path = text.substr(5);
    if (path.starts_with('/') && path.size() <= kLongestPath) return;
  } else if (const std::size_t colon = text.rfind(':'); text.starts_with("tcp:") && colon > 4) {
    host = text.substr(4, colon - 4);
    port = text.substr(colon + 1);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    int number = 0;
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
    const bool good = error == std::errc{} && end == port.data() + port.size();
    if (good && !host.empty() && 1 <= number && number <= 65535) return;
  }
  throw InvalidArgument("rendezvous: got '" + text + "', want tcp:HOST:PORT or unix:/PATH of " +
                        std::to_string(kLongestPath) + " characters at most");
}

std::string missing_directory(const RendezvousAddress& place) {
  if (!place.is_unix) return "";
  const std::string directory = directory_of(place);
  struct stat found {};
  if (::stat(directory.c_str(), &found) == 0 && S_ISDIR(found.st_mode)) return "";
  return "there is no directory " + directory + ", where the ranks are to meet at " + place.text;
}

std::unique_ptr<Listener> Listener::open(const RendezvousAddress& place, std::string& why) {
  if (place.is_unix) prepare_directory(place);
  const std::vector<Address> all = addresses_of(place, why);
  if (!all.empty()) why = "it is in use by another process";
  for (const Address& address : all) {
    Socket socket = stream_socket(address.family());
    const int on = 1;
    if (!place.is_unix) ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    int result = ::bind(socket.fd(), address.get(), address.length);
    if (result != 0 && errno == EADDRINUSE && place.is_unix && remove_stale(place, address)) {
      result = ::bind(socket.fd(), address.get(), address.length);
    }
    if (result != 0 && errno == EADDRINUSE) continue;
    if (result != 0) {
      if (&address == &all.back()) cannot_listen(place);
      continue;
    }
    std::unique_ptr<Listener> listener(
        new Listener(std::move(socket), place.path, security_at(place, address)));
    if (place.is_unix) {
      ::chmod(place.path.c_str(), 0600);
      ::lstat(place.path.c_str(), &listener->file_);
    }
    if (::listen(listener->socket(), SOMAXCONN) == 0) return listener;
    if (errno != EADDRINUSE) cannot_listen(place);
  }
  return nullptr;
}

Listener::~Listener() {
  struct stat now {};
  const bool ours = !path_.empty() && ::lstat(path_.c_str(), &now) == 0 && now.st_ino == file_.st_ino &&
                    now.st_dev == file_.st_dev;
  if (ours) ::unlink(path_.c_str());
}

std::unique_ptr<Channel> Listener::accept() {
  Socket socket = accept_from(socket_);
  if (!socket) check_descriptors();
  if (!socket || (!path_.empty() && !same_user(socket))) return nullptr;
  return std::make_unique<Channel>(security_.accept(std::move(socket)));
}

std::unique_ptr<Channel> connect_to(const RendezvousAddress& place, int milliseconds, std::string& why) {
  why.clear();
  for (const Address& address : addresses_of(place, why)) {
    Socket socket = stream_socket(address.family());
    if (connect_within(socket, address, milliseconds) != 0) continue;
    if (place.is_unix && !same_user(socket)) {
      throw CommError("another user's process listens at " + place.text);
    }
    const int on = 1;
    if (!place.is_unix) ::setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return std::make_unique<Channel>(security_at(place, address).connect(std::move(socket)));
  }
  return nullptr;
}

}  // namespace heddle::comm_detail
