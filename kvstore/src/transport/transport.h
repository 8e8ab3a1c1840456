// The transport between workers, servers and the scheduler of a key-value store: messages between processes, intact and
// in order, over authenticated connections. Two implementations keep the same promise: ZeroMQ and connections of our own.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "net/key_roles.h"

namespace heddle::kv_detail {

// The other end of one connection. A number is never used again: a new connection is a new peer.
using Peer = std::uint64_t;

// Bytes that stay as they are as long as `owner` lives. They are sent from where they lie. The owner may be released on
// another thread.
struct Payload {
  std::shared_ptr<const void> owner{};
  std::span<const std::byte> bytes{};
};

struct Message {
  std::vector<std::byte> head;  // see wire/; at most TransportOptions::max_head bytes
  Payload payload{};            // at most TransportOptions::max_payload bytes
  int priority = 0;  // of the messages that wait for a connection, one of a larger number is sent first
};

// The reason that disconnected() gets when the other side has closed the connection.
constexpr const char* kPeerClosed = "the other side has closed the connection";

// What the owner of a transport does with events. All are called inside Transport::poll, on its thread, and may call
// send, connect and close. An exception from received() or memory_for() closes the connection; its text is logged by
// the owner in disconnected().
class Receiver {
 public:
  virtual ~Receiver() = default;
  // The peer is authenticated, by a key of comm.allowed ("sha256:..." of "net", "curve:..." of "zmq"), or by being a
  // process of the same user on this host ("").
  virtual void connected(Peer peer, const std::string& key) = 0;
  // The last event of a peer, which it has once: its connection has ended, or could not be made. A peer that is closed by
  // close() has no such event.
  virtual void disconnected(Peer peer, const std::string& why) = 0;
  // Called in place of disconnected(): connect() failed for a reason of this process or its host, such as a key file that
  // cannot be read or a family of addresses that the system lacks. Another try fails alike.
  virtual void cannot_connect(Peer peer, const std::string& why) { disconnected(peer, why); }
  // Where to put the payload of a message whose head has come; at least `bytes` bytes, one or more, that stay until
  // received(), disconnected() or close(). Empty: the transport has memory of its own, without any alignment, which is
  // valid in received() only.
  virtual std::span<std::byte> memory_for(Peer peer, std::span<const std::byte> head, std::size_t bytes) = 0;
  // A message whose checksums are right.
  virtual void received(Peer peer, std::span<const std::byte> head, std::span<std::byte> payload) = 0;
};

// Connections that have ended before connected(): those of processes that may not come in, or do not speak as they should.
struct Strangers {
  std::uint64_t refused = 0;  // so far
  std::string last{};         // its address, and why
};

using comm_detail::KeyRoles;

// One thread at a time, but for wake(). Whom connect() reaches has the role of a server, where keys count.
class Transport {
 public:
  virtual ~Transport() = default;
  // Accepts connections at "HOST:PORT" (port 0: any; see comm's choose_address for HOST). Returns the address with the
  // port. Throws CommError.
  virtual std::string listen(const std::string& address) = 0;
  // Begins to connect; connected() or disconnected() follows. What is sent before connected() waits for it. May wait for a
  // name server. Throws InvalidArgument for anything but HOST:PORT.
  virtual Peer connect(const std::string& address) = 0;
  // Enqueues; poll() sends. Messages of one priority arrive in this order. Ignored for a peer that is gone. Throws
  // InvalidArgument for a message that is longer than the options allow.
  virtual void send(Peer peer, Message message) = 0;
  // Bytes that have been enqueued for the peer and not been handed to the system.
  virtual std::size_t queued(Peer peer) const = 0;
  // Forgets the peer at once; no event follows.
  virtual void close(Peer peer) = 0;
  // Moves what can be moved and calls the receiver; waits for `timeout` at most until there is something to do.
  virtual void poll(std::chrono::microseconds timeout) = 0;
  // Ends a poll() or a spin() that waits, or the next one. Any thread.
  virtual void wake() noexcept = 0;

  // What a connection with this key, of connected(), may be used for: "" stands for a process of the same user, for all. A
  // connection whose key loses a role ends.
  virtual KeyRoles roles_of(const std::string& key) const { return (void)key, comm_detail::kAllRoles; }

  // Valid until the next poll(). "zmq" does not hear of them.
  virtual const Strangers& strangers() const {
    static const Strangers none;
    return none;
  }

  // False: spin() does nothing, and receiving is up to poll().
  virtual bool can_spin() const { return false; }
  // Sends what can be sent at once; receives nothing and calls nobody. May be called inside a call of the receiver.
  virtual void flush() {}
  // A poll() that does not sleep: looks for something to do until there was something, `over` is not 0, or the time of
  // TransportOptions::spin has passed. False: nothing has been moved.
  virtual bool spin(const std::atomic<std::uint32_t>& over) { return (void)over, false; }
};

struct TransportOptions {
  std::string kind = "net";   // "net": shared memory between processes of one host, else TCP with TLS. "zmq"
  bool shared_memory = true;  // of "net", between processes of one host; if false, unix sockets
  std::chrono::microseconds spin{50};  // of "net": how long poll() looks for more messages before it sleeps
  std::string keys{};                  // directory; empty: comm_keys_directory()
  bool encrypt_loopback = false;       // what leaves the host is always encrypted
  std::size_t max_head = 64 << 10;     // bytes; a peer that announces more is disconnected, as with the next
  std::size_t max_payload = 4 << 20;   // bytes
  std::size_t max_connections = 10'000;  // that are accepted; what comes beyond it is closed at once
  // After which a connection that is not authenticated is closed.
  std::chrono::milliseconds handshake_timeout{5000};
};

// Throws InvalidArgument for a kind that there is not, and CommError if encryption is needed and there is no key.
std::unique_ptr<Transport> make_transport(const TransportOptions& options, Receiver& receiver);

}  // namespace heddle::kv_detail
