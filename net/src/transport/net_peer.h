// The record of a peer of the transport "net".
#pragma once

#include <memory>
#include <optional>
#include <poll.h>
#include <string>

#include "transport/net_handshake.h"
#include "transport/net_listeners.h"
#include "transport/net_messages.h"
#include "transport/transport.h"

namespace heddle::net_detail {

struct NetPeer {
  enum class Stage { connecting, refusing, handshake, open };
  NetPeer(Peer given, bool is_client, const TransportOptions& options, Receiver& to)
      : number(given), client(is_client), receiver({options.max_head, options.max_payload}, to, given) {}

  const Peer number;
  const bool client;  // true: made by connect(); false: accepted
  Stage stage = Stage::connecting;
  NewConnection::Way way = NewConnection::Way::local;
  std::string address{};  // the address given to connect()
  std::unique_ptr<net_detail::Connection> connection{};
  std::optional<Handshake> handshake{};
  KeyRoles roles{};  // roles of the peer's key when it was authenticated
  bool is_ring = false;
  bool has_left = false;  // whether the peer has left during the handshake, see PeerLeft
  bool hopeless = false;  // whether no other attempt can succeed, see Receiver::cannot_connect
  MessageSender sender{};
  MessageReceiver receiver;
  short watched = POLLIN;     // the events that the poller waits for
  bool ready = false;         // whether the peer is in NetTransport::ready_
  bool unregistered = false;  // whether the peer is in NetTransport::unregistered_
  bool gone = false;  // whether the peer has been closed; only the call that is running still uses the object
};

}  // namespace heddle::net_detail
