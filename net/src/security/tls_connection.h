// An encrypted and authenticated connection to a peer whose key is on a list: TLS 1.3 with one cipher suite and pinned
// keys, without host names, certificate authorities and session resumption.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "connection/connection.h"
#include "security/key_files.h"

namespace heddle::net_detail {

// The TLS settings and keys of a rank, shared by its connections. Thread-safe.
class TlsContext;
// Makes the TLS settings from a user's key files. Throws CommError.
std::shared_ptr<const TlsContext> make_tls_context(const KeyFiles& files);

enum class TlsSide : std::uint8_t { client, server };

struct TlsLimits {
  // After this many bytes the connection changes to a new key, as AES-GCM requires well before 2^38.
  std::uint64_t bytes_per_key = 1ull << 36;
};

// Makes one end of an encrypted connection. Its handshake happens inside send() and receive(). The connection
// owns the socket.
std::unique_ptr<Connection> tls_connection(Socket socket, std::shared_ptr<const TlsContext> context,
                                           TlsSide side, const TlsLimits& limits = {});

// Whether the bytes that have arrived are the first bytes of a rank that encrypts; used by a listener that
// does not encrypt.
bool is_tls_hello(const std::string& received);

}  // namespace heddle::net_detail
