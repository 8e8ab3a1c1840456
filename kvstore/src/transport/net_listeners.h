// How connections are accepted and made.
//
// Every address has a unix socket, for processes of this host and user (see address.h). At an address on loopback there
// is nobody else to accept: a TCP connection is told so in clear text, and closed. At other addresses, and with
// encrypt_loopback at all of them, TCP connections use TLS.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "net/connection.h"
#include "net/tls_connection.h"
#include "transport/address.h"
#include "transport/key_list.h"
#include "transport/key_watch.h"
#include "transport/transport.h"

namespace heddle::kv_detail {

// What has come in or gone out, before the handshake.
struct NewConnection {
  enum class Way { local, encrypted, refused };  // refused: at a TCP port of loopback
  Way way = Way::local;
  std::unique_ptr<comm_detail::Connection> connection{};
};

struct Listener {
  NewConnection::Way way = NewConnection::Way::local;
  comm_detail::Socket socket{};
};

// Listens and connects.
class ConnectionFactory {
 public:
  // Throws CommError if it has to encrypt and there is no key.
  explicit ConnectionFactory(const TransportOptions& options);

  // Listens; `address` gets the port. Throws CommError.
  std::vector<Listener> open(Address& address);
  // The next connection. An empty connection: it is closed already, as its user is another one; nullopt: there
  // is none, as errno says.
  std::optional<NewConnection> accept(const Listener& listener);

  // Begins to connect. Throws CommError.
  NewConnection connect(const Address& address);

  // The fingerprints that are let in, if the files of keys have changed. Connections that are made from now on use the new ones.
  std::optional<std::set<std::string>> changed_keys();
  // Whether a connection with this peer_key() may stay; one that was begun before the files changed may not.
  bool allows(const std::string& key) const { return key.empty() || !allowed_ || allowed_->contains(key); }
  comm_detail::KeyRoles roles_of(const std::string& key) const { return roles_in(roles_, key); }

 private:
  bool encrypts(const Address& address) const;
  std::shared_ptr<const comm_detail::TlsContext> tls(const std::string& what);

  const TransportOptions options_;
  std::shared_ptr<const comm_detail::TlsContext> tls_;  // read when it is first needed
  std::optional<KeyWatch> watch_;                       // of what tls_ was made from
  std::optional<std::set<std::string>> allowed_;        // since they have changed
  KeyList roles_;
};

// What has become of a TCP connection that connect() has begun: nothing yet, an error of the system (not 0), or 0.
std::optional<int> connected(const comm_detail::Socket& socket);

// "192.0.2.7:40000", or what else is known of the other side.
std::string other_side(const comm_detail::Socket& socket);

// Tells the other side why it is refused; it is closed when it has had the time to read that.
void say_refused(const comm_detail::Socket& socket);

}  // namespace heddle::kv_detail
