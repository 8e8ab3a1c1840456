// Keys and the two ends of a connection, for tests of what is encrypted.
#pragma once

#include <chrono>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <utility>

#include <doctest/doctest.h>

#include <heddle/comm_keys.h>

#include "files.h"
#include "meet/security.h"
#include "wire/tls_connection.h"

namespace heddle::test {

// A directory with a key.
struct Keys {
  TemporaryDirectory directory;
  CommKey key = make_comm_key(directory.path, false);
  detail::KeyFiles files() const { return detail::read_key_files(directory.path).value(); }
  detail::Security security() const { return detail::Security(files()); }
  std::string fingerprint() const { return key.line.substr(0, key.line.find(' ')); }
  void allow(const Keys& other) const {
    write_file(key.allowed_file, read_file(key.allowed_file) + other.key.line + "\n");
  }
};

inline std::pair<detail::Socket, detail::Socket> socket_pair() {
  int fds[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
  return {detail::Socket(fds[0]), detail::Socket(fds[1])};
}

struct Ends {
  std::unique_ptr<detail::Connection> client, server;
};

inline Ends ends_of(const Keys& client, const Keys& server, const detail::TlsLimits& limits = {}) {
  auto [a, b] = socket_pair();
  return {detail::tls_connection(std::move(a), detail::make_tls_context(client.files()),
                                 detail::TlsSide::client, limits),
          detail::tls_connection(std::move(b), detail::make_tls_context(server.files()),
                                 detail::TlsSide::server, limits)};
}

}  // namespace heddle::test
