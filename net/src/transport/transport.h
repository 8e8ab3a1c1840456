// The transport between workers, servers and the scheduler: messages between processes, intact and in order,
// over authenticated connections. Implementations: "zmq", over ZeroMQ, and "net", over the connections of
// net/src/connection.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "security/key_roles.h"

namespace heddle::net_detail {

// The other end of one connection. A number is never used again: a new connection is a new peer.
using Peer = std::uint64_t;

// Bytes that do not change as long as `owner` lives. They are sent without a copy. The owner may be released
// on another thread.
struct Payload {
  std::shared_ptr<const void> owner{};
  std::span<const std::byte> bytes{};
};

struct Message {
  std::vector<std::byte> head;  // what the message says, in a format of the transport's user; at most
                                // TransportOptions::max_head bytes
  Payload payload{};            // data behind the head; at most TransportOptions::max_payload bytes
  int priority = 0;             // the waiting message with the largest priority is sent first
};

// The reason that disconnected() gets when the other side has closed the connection.
constexpr const char* kPeerClosed = "the other side has closed the connection";

// The events of a transport. All functions are called inside Transport::poll or spin, on its thread, and may
// call send, connect and close. An exception from received() or memory_for() closes the connection, and
// disconnected() gets its text.
class Receiver {
 public:
  virtual ~Receiver() = default;
  // The connection is ready. `key` is the key of comm.allowed by which the peer is authenticated
  // ("sha256:..." with "net", "curve:..." with "zmq"), or "" for a process of the same user on this host.
  virtual void connected(Peer peer, const std::string& key) = 0;
  // The connection of the peer has ended, or could not be made. This is the last event of the peer. There is
  // none after close().
  virtual void disconnected(Peer peer, const std::string& why) = 0;
  // Called in place of disconnected(): connect() failed for a reason of this process or its host, such as a
  // key file that cannot be read or a family of addresses that the system lacks. Another try would fail, too.
  virtual void cannot_connect(Peer peer, const std::string& why) { disconnected(peer, why); }
  // Returns memory for the payload of a message whose head has come: at least `bytes` bytes, one or more,
  // that stay until received(), disconnected() or close(). Empty: the transport uses memory of its own,
  // without any alignment, which is valid in received() only.
  virtual std::span<std::byte> memory_for(Peer peer, std::span<const std::byte> head, std::size_t bytes) = 0;
  // A message has been received, and its checksums are right.
  virtual void received(Peer peer, std::span<const std::byte> head, std::span<std::byte> payload) = 0;
};

// Connections that have ended before connected(): their peers were not authenticated, or broke the protocol.
struct RefusedConnections {
  std::uint64_t refused = 0;  // refused connections so far
  std::string last{};         // address of the last refused peer, and the reason
};

using net_detail::KeyRoles;

// One thread at a time, except for wake(). Peers of connect() must have the role server, where keys count.
class Transport {
 public:
  virtual ~Transport() = default;
  // Accepts connections at "HOST:PORT" (port 0: any; see choose_address in connection/interfaces.h for HOST).
  // Returns the address with the chosen port. Throws CommError.
  virtual std::string listen(const std::string& address) = 0;
  // Begins to connect; connected() or disconnected() follows. Messages sent before connected() wait for it.
  // May block for a name server. Throws InvalidArgument for anything but HOST:PORT.
  virtual Peer connect(const std::string& address) = 0;
  // Enqueues a message, which poll() sends. Messages to a peer that have the same priority arrive in the
  // order of these calls. Ignored for a peer that is gone. Throws InvalidArgument for a message that is
  // longer than the options allow.
  virtual void send(Peer peer, Message message) = 0;
  // Bytes that have been enqueued for the peer and have not been handed to the kernel.
  virtual std::size_t queued(Peer peer) const = 0;
  // Forgets the peer at once; no event follows.
  virtual void close(Peer peer) = 0;
  // Sends and receives what it can, and calls the receiver; waits for `timeout` at most if it can do nothing.
  virtual void poll(std::chrono::microseconds timeout) = 0;
  // Ends a waiting poll() or spin(), or the next one. Any thread.
  virtual void wake() noexcept = 0;

  // The roles of a key that connected() got; "" stands for a process of the same user, which has all roles. A
  // connection whose key loses a role or a job is closed.
  virtual KeyRoles roles_of(const std::string& key) const { return (void)key, net_detail::kAllRoles; }

  // The connections that were refused. The reference is valid until the next poll(). With "zmq" the struct
  // stays empty, since ZeroMQ does not report refused connections.
  virtual const RefusedConnections& refused_connections() const {
    static const auto& none = *new RefusedConnections;
    return none;
  }

  // Whether spin() works. If not, spin() does nothing, and messages are received in poll() only.
  virtual bool can_spin() const { return false; }
  // Sends what can be sent at once; neither receives nor calls the receiver. The receiver may call it.
  virtual void flush() {}
  // A poll() that does not sleep: tries until something was moved, `over` is not 0, or the time
  // TransportOptions::spin has passed. False: nothing was moved.
  virtual bool spin(const std::atomic<std::uint32_t>& over) { return (void)over, false; }
};

struct TransportOptions {
  std::string kind = "net";   // "net": shared memory on one host, TCP with TLS between hosts; or "zmq"
  bool shared_memory = true;  // "net": shared memory between processes of one host; false: unix sockets
  std::chrono::microseconds spin{50};  // "net": how long poll() looks for more messages before it sleeps
  std::string keys{};                  // directory of comm.key and comm.allowed; empty: comm_keys_directory()
  bool encrypt_loopback = false;       // encrypts on loopback, too; other connections are always encrypted
  std::size_t max_head = 64 << 10;     // most bytes of a head; a peer that announces more is disconnected
  std::size_t max_payload = 4 << 20;   // most bytes of a payload
  std::size_t max_connections = 10'000;  // most accepted connections; further ones are closed at once
  // Time after which a connection that is not authenticated is closed.
  std::chrono::milliseconds handshake_timeout{5000};
};

// Throws InvalidArgument for an unknown kind, and CommError if encryption is needed and there is no key.
std::unique_ptr<Transport> make_transport(const TransportOptions& options, Receiver& receiver);

}  // namespace heddle::net_detail
