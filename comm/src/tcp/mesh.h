// How the connections of a tcp communicator come about.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "bootstrap/rendezvous.h"
#include "bootstrap/security.h"
#include "net/connection.h"
#include "tcp/frame.h"

namespace heddle::comm_detail {

// The two connections with one other rank; of this rank itself both are null.
struct Link {
  std::unique_ptr<Connection> data{}, control{};
};

// Between every two ranks; each end knows that the other has the job's key.
struct Mesh {
  int rank = 0;
  std::uint32_t epoch = 0;
  Key key{};
  std::vector<Link> links{};  // by rank
};

// Listens on `address` at one of the ports until all have come. Strangers that connect are dropped. Throws CommError
// naming a rank that cannot be reached, has not come in time, or is not to take part.
Mesh make_mesh(Rendezvous& rendezvous, const std::string& address, PortRange ports,
               std::chrono::milliseconds timeout, const Security& security = {});

}  // namespace heddle::comm_detail
