// The transport "net": the connections of net/src/connection, through shared memory, unix sockets or TLS over
// TCP.
#pragma once

#include <memory>

#include "transport/transport.h"

namespace heddle::net_detail {

std::unique_ptr<Transport> make_net_transport(const TransportOptions& options, Receiver& receiver);

}  // namespace heddle::net_detail
