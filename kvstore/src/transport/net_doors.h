// The doors of a server: how connections come in and go out.
//
// Every address has a local door, for processes of this host and user: a unix socket (see address.h). At an address on
// loopback nobody else has business: whoever comes by TCP is told so in clear text, and closed. At other addresses, and
// with encrypt_loopback at all of them, TLS is behind the TCP socket.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "net/connection.h"
#include "net/tls_connection.h"
#include "transport/address.h"
#include "transport/transport.h"

namespace heddle::kv_detail {

// What has come in or gone out, before the handshake.
struct NewConnection {
  enum class Way { local, encrypted, refused };  // refused: a stranger at a port of loopback
  Way way = Way::local;
  std::unique_ptr<comm_detail::Connection> connection{};
};

struct Door {
  NewConnection::Way way = NewConnection::Way::local;
  comm_detail::Socket socket{};
};

// Opens doors and connects to those of others.
class Doors {
 public:
  // Throws CommError if it has to encrypt and there is no key.
  explicit Doors(const TransportOptions& options);

  // Listens; `address` gets the port. Throws CommError.
  std::vector<Door> open(Address& address);
  // The next connection at a door. An empty connection: it is closed already, as its user is another one; nullopt: there
  // is none, as errno says.
  std::optional<NewConnection> accept(const Door& door);

  // Begins to connect. Throws CommError.
  NewConnection connect(const Address& address);

 private:
  bool encrypts(const Address& address) const;
  std::shared_ptr<const comm_detail::TlsContext> tls(const std::string& what);

  const TransportOptions options_;
  std::shared_ptr<const comm_detail::TlsContext> tls_;  // read when it is first needed
};

// What has become of a TCP connection that connect() has begun: nothing yet, an error of the system (not 0), or 0.
std::optional<int> connected(const comm_detail::Socket& socket);

// Tells a stranger at a refused door where he is; he is closed when he has had the time to read it.
void say_refused(const comm_detail::Socket& socket);

}  // namespace heddle::kv_detail
