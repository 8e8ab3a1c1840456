// Accepts and makes connections.
//
// Every address has a unix socket, for processes of this host and user (see address.h). At loopback addresses
// this is the only way in: a TCP connection is refused in clear text, and closed. At other addresses, and
// with encrypt_loopback at all of them, TCP connections use TLS.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "connection/connection.h"
#include "security/tls_connection.h"
#include "transport/address.h"
#include "transport/key_list.h"
#include "transport/key_watch.h"
#include "transport/transport.h"

namespace heddle::net_detail {

// A new connection, accepted or made, before its handshake.
struct NewConnection {
  enum class Way { local, encrypted, refused };  // refused: a TCP connection on loopback
  Way way = Way::local;
  std::unique_ptr<net_detail::Connection> connection{};
};

struct Listener {
  NewConnection::Way way = NewConnection::Way::local;
  net_detail::Socket socket{};
};

// Listens and connects, with the keys of a directory.
class ConnectionFactory {
 public:
  // Throws CommError if connections have to be encrypted and there is no key.
  explicit ConnectionFactory(const TransportOptions& options);

  // Listens at `address`, and sets its port if it is 0. Throws CommError.
  std::vector<Listener> open(Address& address);
  // Accepts the next connection. If its `connection` is empty, it came from another user, and is closed
  // already. nullopt: no connection is waiting, or accepting failed; errno says why.
  std::optional<NewConnection> accept(const Listener& listener);

  // Begins to connect. Throws CommError.
  NewConnection connect(const Address& address);

  // The allowed fingerprints, if the key files have changed since the last call. New connections use the new
  // keys.
  std::optional<std::set<std::string>> changed_keys();
  // True if a connection with this peer_key() may stay: its key has not been removed from the files.
  bool allows(const std::string& key) const { return key.empty() || !allowed_ || allowed_->contains(key); }
  net_detail::KeyRoles roles_of(const std::string& key) const { return roles_in(roles_, key); }

 private:
  bool encrypts(const Address& address) const;
  std::shared_ptr<const net_detail::TlsContext> tls(const std::string& what);

  const TransportOptions options_;
  std::shared_ptr<const net_detail::TlsContext> tls_;  // made when a connection is first encrypted
  std::optional<KeyWatch> watch_;                      // watches the files that tls_ is made from
  std::optional<std::set<std::string>> allowed_;       // allowed keys, once the files have changed
  KeyList roles_;
};

// State of a TCP connection that connect() has begun. nullopt: pending; 0: connected; else an errno.
std::optional<int> connected(const net_detail::Socket& socket);

// The address of the other side, such as "192.0.2.7:40000", or what else is known of that side.
std::string other_side(const net_detail::Socket& socket);

// Tells the other side why it is refused. The caller has to leave the other side time to read that before it
// closes the connection.
void say_refused(const net_detail::Socket& socket);

}  // namespace heddle::net_detail
