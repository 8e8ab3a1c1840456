// Authentication and encryption of the connections between hosts.
#pragma once

#include <memory>
#include <string>

#include "connection/connection.h"
#include "security/key_files.h"

namespace heddle::net_detail {
class TlsContext;
}

namespace heddle::comm_detail {

using namespace net_detail;

// How the connections at an address are secured: not at all, or by TLS with this user's keys. Can be copied.
class Security {
 public:
  static constexpr const char* kPlain = "plain";
  Security() = default;  // makes connections that are not secured
  explicit Security(const KeyFiles& files);

  bool encrypts() const { return tls_ != nullptr; }
  // kPlain, or the fingerprint of this rank's key.
  const std::string& own_key() const { return own_key_; }
  // Why a rank with this key is refused; empty: it is accepted.
  std::string reason_against(const std::string& fingerprint) const;

  // connect() makes the client end of a connection, accept() the server end.
  std::unique_ptr<Connection> connect(Socket socket) const;
  std::unique_ptr<Connection> accept(Socket socket) const;

 private:
  std::shared_ptr<const TlsContext> tls_{};
  std::string own_key_ = kPlain;
  KeyFiles files_{};
};

// Chooses the security of an address: TLS at all addresses but loopback.
class SecurityPolicy {
 public:
  struct Options {
    bool encrypt = false;     // HEDDLE_COMM_ENCRYPT: TLS at loopback, too
    bool insecure = false;    // HEDDLE_COMM_INSECURE: no TLS at any address
    std::string directory{};  // directory of the keys; empty: comm_keys_directory()
  };
  // Throws InvalidArgument if HEDDLE_COMM_ENCRYPT and HEDDLE_COMM_INSECURE are both set, or a value is
  // invalid.
  static SecurityPolicy from_environment();
  explicit SecurityPolicy(const Options& options) : options_(options) {}

  // How connections at `address` are secured. Throws CommError if keys are needed and there are none, or
  // unusable ones. `what` begins the error's text: "the ranks would meet at ...".
  Security at(const std::string& address, const std::string& what);

 private:
  Options options_;
  Security keys_;  // the keys; read when first needed
};

}  // namespace heddle::comm_detail
