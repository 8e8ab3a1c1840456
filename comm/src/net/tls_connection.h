// A connection that nobody else can read or change, with somebody whose key is on a list. TLS 1.3 with one suite; keys are
// pinned: there are no names, no authorities, no resumption.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "net/connection.h"
#include "net/key_files.h"

namespace heddle::comm_detail {

// What all connections of a rank have in common. Any thread.
class TlsContext;
// Throws CommError.
std::shared_ptr<const TlsContext> make_tls_context(const KeyFiles& files);

enum class TlsSide : std::uint8_t { client, server };

struct TlsLimits {
  std::uint64_t bytes_per_key =
      1ull << 36;  // then both sides go on with a new one: AES-GCM wants that well before 2^38
};

// The handshake happens inside send and receive. After would_block, send wants the same bytes again, and may get more.
std::unique_ptr<Connection> tls_connection(Socket socket, std::shared_ptr<const TlsContext> context,
                                           TlsSide side, const TlsLimits& limits = {});

// By which a listener that does not encrypt knows the first words of a rank that does.
bool is_tls_hello(const std::string& received);

}  // namespace heddle::comm_detail
