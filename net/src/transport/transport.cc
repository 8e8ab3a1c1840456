#include "transport/transport.h"

#include <heddle/error.h>

#include "transport/net_transport.h"

// Defined by the library heddle_zmq. Null in a program that was built without ZeroMQ.
extern "C" [[gnu::weak]] heddle::net_detail::Transport* make_heddle_zmq_transport(
    const heddle::net_detail::TransportOptions& options, heddle::net_detail::Receiver& receiver);

namespace heddle::net_detail {

std::unique_ptr<Transport> make_transport(const TransportOptions& options, Receiver& receiver) {
  if (options.kind == "net") return make_net_transport(options, receiver);
  if (options.kind == "zmq") {
    if (!make_heddle_zmq_transport)
      throw InvalidArgument(
          "transport: zmq is not in this program, which was built without ZeroMQ; want net");
    return std::unique_ptr<Transport>(make_heddle_zmq_transport(options, receiver));
  }
  throw InvalidArgument("transport: got '" + options.kind + "', want net or zmq");
}

}  // namespace heddle::net_detail
