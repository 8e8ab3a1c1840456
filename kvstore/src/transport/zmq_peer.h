// What the transport "zmq" knows of a peer.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "transport/address.h"
#include "transport/send_queue.h"
#include "transport/transport.h"
#include "transport/zmq_socket.h"

namespace heddle::kv_detail {

// A connection of connect().
struct ZmqDealer {
  ZmqSocket socket;
  ZmqMonitor monitor;
  explicit ZmqDealer(const ZmqContext& context) : socket(context, ZMQ_DEALER), monitor(context, socket) {}
};

struct ZmqPeer {
  std::unique_ptr<ZmqDealer>
      dealer{};            // null: the peer has connected to the router, or cannot be connected to
  std::string identity{};  // of the peer at the router; empty: it is a peer of connect()
  Address address{};       // of connect()
  // That the server may have, and that have not been tried; the last one is next.
  std::vector<std::string> keys{};
  std::string key{};      // of the other side
  KeyRoles roles{};       // of that, when it was let in
  int fd = -1;            // of its connection at the router
  bool greeted = false;   // its hello has come
  bool hopeless = false;  // see Receiver::cannot_connect
  bool revoked = false;   // its key is no longer on the list: what it sends is not read
  std::chrono::steady_clock::time_point deadline{};  // for that
  SendQueue queue{};
};

}  // namespace heddle::kv_detail
