#include "transport/transport.h"

#include <heddle/error.h>

#include "transport/net_transport.h"
#include "transport/zmq_transport.h"

namespace heddle::kv_detail {

std::unique_ptr<Transport> make_transport(const TransportOptions& options, Receiver& receiver) {
  if (options.kind == "net") return make_net_transport(options, receiver);
  if (options.kind == "zmq") return make_zmq_transport(options, receiver);
  throw InvalidArgument("transport: got '" + options.kind + "', want net or zmq");
}

}  // namespace heddle::kv_detail
