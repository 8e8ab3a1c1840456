#include "transport/net_listeners.h"

#include <cerrno>
#include <netdb.h>
#include <poll.h>
#include <string_view>
#include <sys/socket.h>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <heddle/comm_error.h>
#include <heddle/comm_keys.h>

#include "connection/interfaces.h"
#include "security/key_files.h"

namespace heddle::net_detail {
namespace {

using net_detail::Connection;
using net_detail::Socket;
using net_detail::TlsSide;
using Way = NewConnection::Way;

constexpr const char* kKind = "net";
constexpr int kBacklog = 4096;
// Attempts with port 0: another user's unix socket may have the name of a free port.
constexpr int kPortsToTry = 100;
constexpr std::string_view kRefusal =
    "heddle: connections of this host do not go through TCP here; encryption is off\n";

// TCP keepalive notices after 15 s that the other host is lost.
void tune(const Socket& socket) {
  net_detail::tune_for_data(socket);
  const auto set = [&](int level, int name, int value) {
    setsockopt(socket.fd(), level, name, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 3);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

Listener listen_locally_at(const Address& address) {
  return {Way::local, listen_locally(local_name(kKind, address), kBacklog)};
}

}  // namespace

ConnectionFactory::ConnectionFactory(const TransportOptions& options) : options_(options) {
  if (options_.encrypt_loopback) tls("connections are to be encrypted");
}

bool ConnectionFactory::encrypts(const Address& address) const {
  return options_.encrypt_loopback || !net_detail::is_loopback_address(address.host);
}

std::shared_ptr<const net_detail::TlsContext> ConnectionFactory::tls(const std::string& what) {
  if (tls_) return tls_;
  try {
    watch_.emplace(options_.keys);
    auto files = net_detail::read_key_files(watch_->directory());
    if (!files)
      throw CommError(what + ", and there is no " + net_detail::key_file_in(watch_->directory()) +
                      ": run `heddle keygen` on one host and copy what it makes to the others");
    tls_ = net_detail::make_tls_context(*files);
    roles_ = std::move(files->roles);
  } catch (const CommError& error) {
    net_detail::throw_of_keys(error);
  }
  return tls_;
}

std::optional<std::set<std::string>> ConnectionFactory::changed_keys() {
  if (!tls_) return std::nullopt;
  auto files = watch_->changed();
  if (!files) return std::nullopt;
  tls_ = net_detail::make_tls_context(*files);
  roles_ = std::move(files->roles);
  return allowed_ = std::move(files->allowed);
}

std::vector<Listener> ConnectionFactory::open(Address& address) {
  const bool encrypted = encrypts(address), any_port = address.port == 0,
             locally = !options_.encrypt_loopback;
  if (encrypted) tls("others can reach " + address.text());
  for (int attempt = 0; attempt < kPortsToTry; ++attempt) {
    std::vector<Listener> listeners;
    Address here = address;
    // The unix socket comes first, since a local client that finds only the TCP port is refused.
    Listener named;
    if (locally && !any_port) named = listen_locally_at(here);
    listeners.push_back({encrypted ? Way::encrypted : Way::refused,
                         net_detail::listen_on(here.host, {here.port, here.port}, kBacklog)});
    here.port = net_detail::port_of(listeners.front().socket);
    if (locally) listeners.push_back(any_port ? listen_locally_at(here) : std::move(named));
    const bool taken = !listeners.back().socket;
    // If connections are encrypted, keys decide who is let in, and another user who has taken the name can do
    // no harm.
    if (taken && encrypted) listeners.pop_back();
    if (!taken || encrypted) {
      address = here;
      return listeners;
    }
    if (!any_port) break;
  }
  throw CommError("cannot listen at " + address.text() + ": another process has the name @" +
                  local_name(kKind, address));
}

std::optional<NewConnection> ConnectionFactory::accept(const Listener& listener) {
  Socket socket = net_detail::accept_from(listener.socket);
  if (!socket) return std::nullopt;
  if (listener.way == Way::local && !is_same_user(socket.fd())) return NewConnection{};
  if (listener.way != Way::local) tune(socket);
  if (listener.way == Way::encrypted)
    return NewConnection{listener.way, net_detail::tls_connection(std::move(socket), tls_, TlsSide::server)};
  return NewConnection{listener.way, net_detail::plain_connection(std::move(socket))};
}

// Tries the unix socket first, at every address. If it belongs to another user, and the connection would not
// be encrypted, it is refused, since that user may have taken the address.
NewConnection ConnectionFactory::connect(const Address& address) {
  if (!options_.encrypt_loopback) {
    Socket socket = connect_locally(local_name(kKind, address));
    if (!socket && errno == EAGAIN) throw CommError("too many connect to " + address.text() + " at once");
    const bool theirs = socket && !is_same_user(socket.fd());
    if (theirs && !encrypts(address)) throw CommError("another user's process listens at " + address.text());
    if (socket && !theirs) return {Way::local, net_detail::plain_connection(std::move(socket))};
  }
  const Way way = encrypts(address) ? Way::encrypted : Way::refused;
  const auto context =
      way == Way::encrypted ? tls("others can read what is sent to " + address.text()) : nullptr;
  Socket socket = net_detail::connect_to(address.host, address.port);
  tune(socket);
  if (way == Way::refused) return {way, net_detail::plain_connection(std::move(socket))};
  return {way, net_detail::tls_connection(std::move(socket), context, TlsSide::client)};
}

std::optional<int> connected(const Socket& socket) {
  pollfd ready{socket.fd(), POLLOUT, 0};
  if (::poll(&ready, 1, 0) != 1) return std::nullopt;
  int error = 0;
  socklen_t length = sizeof error;
  return getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

std::string other_side(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (::getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&address), &length) != 0) return "somebody";
  if (address.ss_family == AF_UNIX) return "a process of this host";
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "somebody";
  return std::string(host) + ":" + port;
}

void say_refused(const Socket& socket) {
  [[maybe_unused]] const auto sent =
      ::send(socket.fd(), kRefusal.data(), kRefusal.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  shutdown(socket.fd(), SHUT_WR);
}

}  // namespace heddle::net_detail
