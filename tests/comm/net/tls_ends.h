// Keys, and the two ends of an encrypted connection, for tests.
#pragma once

#include <chrono>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <utility>

#include <doctest/doctest.h>

#include <heddle/comm_keys.h>

#include "bootstrap/security.h"
#include "files.h"
#include "security/tls_connection.h"

namespace heddle::test {

// A temporary directory with a key of its own and a list of accepted keys.
struct Keys {
  TemporaryDirectory directory;
  CommKey key = make_comm_key(directory.path, false);
  net_detail::KeyFiles files() const { return net_detail::read_key_files(directory.path).value(); }
  comm_detail::Security security() const { return comm_detail::Security(files()); }
  std::string fingerprint() const { return key.line.substr(0, key.line.find(' ')); }
  void allow(const Keys& other) const {
    write_file(key.allowed_file, read_file(key.allowed_file) + other.key.line + "\n");
  }
};

inline std::pair<net_detail::Socket, net_detail::Socket> socket_pair() {
  int fds[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
  return {net_detail::Socket(fds[0]), net_detail::Socket(fds[1])};
}

struct Ends {
  std::unique_ptr<net_detail::Connection> client, server;
};

inline Ends ends_of(const Keys& client, const Keys& server, const net_detail::TlsLimits& limits = {}) {
  auto [a, b] = socket_pair();
  return {net_detail::tls_connection(std::move(a), net_detail::make_tls_context(client.files()),
                                     net_detail::TlsSide::client, limits),
          net_detail::tls_connection(std::move(b), net_detail::make_tls_context(server.files()),
                                     net_detail::TlsSide::server, limits)};
}

}  // namespace heddle::test
