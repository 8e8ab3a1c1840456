// Translates kvstore_bench's names of transports to the store's options.
#pragma once

#include <string>

#include "transport/transport.h"

namespace heddle::bench {

// "shm", "unix": net within a host. "tls": net over encrypted TCP. "zmq": ZeroMQ over a unix socket.
inline net_detail::TransportOptions transport_options(const std::string& transport, const std::string& keys) {
  net_detail::TransportOptions options{
      .kind = transport == "zmq" ? "zmq" : "net", .shared_memory = transport == "shm", .keys = keys};
  options.encrypt_loopback = transport == "tls";
  return options;
}

}  // namespace heddle::bench
