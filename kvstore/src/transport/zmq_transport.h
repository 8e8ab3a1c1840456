// The transport "zmq": ZeroMQ, with a priority queue in front of it.
#pragma once

#include <memory>

#include "transport/transport.h"

namespace heddle::kv_detail {

std::unique_ptr<Transport> make_zmq_transport(const TransportOptions& options, Receiver& receiver);

}  // namespace heddle::kv_detail
