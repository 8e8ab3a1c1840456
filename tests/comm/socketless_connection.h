// Base of connections without a socket, for tests: there is nothing to poll, and sent bytes count as
// delivered.
#pragma once

#include <optional>
#include <stdexcept>

#include "connection/connection.h"

namespace heddle::test {

class SocketlessConnection : public net_detail::Connection {
 public:
  std::optional<pollfd> before_sleep(bool, bool) override { return std::nullopt; }
  const net_detail::Socket& socket() const override { throw std::logic_error("there is no socket"); }
  void finish_sending() override {}
  bool all_delivered() override { return true; }
};

}  // namespace heddle::test
