// The record of a peer of the transport "zmq".
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "transport/address.h"
#include "transport/send_queue.h"
#include "transport/transport.h"
#include "zmq/zmq_socket.h"

namespace heddle::net_detail {

// The sockets of a peer made by connect().
struct ZmqDealer {
  ZmqSocket socket;
  ZmqMonitor monitor;
  explicit ZmqDealer(const ZmqContext& context) : socket(context, ZMQ_DEALER), monitor(context, socket) {}
};

struct ZmqPeer {
  // The sockets of a peer made by connect(). Null: the peer has connected to the router, or connect() has
  // failed.
  std::unique_ptr<ZmqDealer> dealer{};
  std::string identity{};  // name of the peer at the router; empty: a peer of connect()
  Address address{};       // the address given to connect()
  // Keys that the server may have and that have not been tried; the last one is tried next.
  std::vector<std::string> keys{};
  std::string key{};      // the other side's key
  KeyRoles roles{};       // roles of `key` when the peer was authenticated
  int fd = -1;            // descriptor of the peer's connection at the router
  bool greeted = false;   // whether the peer's hello has come
  bool hopeless = false;  // whether no other attempt can succeed, see Receiver::cannot_connect
  bool revoked = false;   // whether the peer's key was removed: later messages are not read
  std::chrono::steady_clock::time_point deadline{};  // time until which the peer's hello must come
  SendQueue queue{};
};

}  // namespace heddle::net_detail
