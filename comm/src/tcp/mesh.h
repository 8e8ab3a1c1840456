// Makes the connections of a tcp communicator.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "bootstrap/rendezvous.h"
#include "bootstrap/security.h"
#include "connection/connection.h"
#include "tcp/frame.h"

namespace heddle::comm_detail {

using namespace net_detail;

// The two connections with another rank. Both are null for this rank itself.
struct Link {
  std::unique_ptr<Connection> data{}, control{};
};

// This rank's connections with all others. Both ends have proven that they have the job's key.
struct Mesh {
  int rank = 0;
  std::uint32_t epoch = 0;
  Key key{};
  std::vector<Link> links{};  // by rank: the connections with that rank
};

// Listens on `address` at one of the ports until all ranks have connected. Connections from outside the job are closed.
// Throws CommError naming a rank that cannot be reached, has not connected in time, or whose key is not accepted.
Mesh make_mesh(Rendezvous& rendezvous, const std::string& address, PortRange ports,
               std::chrono::milliseconds timeout, const Security& security = {});

}  // namespace heddle::comm_detail
