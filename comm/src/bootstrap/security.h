// Who may take part in a job across hosts, and whether others can read what its ranks say to each other.
#pragma once

#include <memory>
#include <string>

#include "net/connection.h"
#include "net/key_files.h"

namespace heddle::comm_detail {

class TlsContext;

// How the connections at one address are made: as they are, or by TLS with this user's keys. A value.
class Security {
 public:
  static constexpr const char* kPlain = "plain";
  Security() = default;  // as they are
  explicit Security(const KeyFiles& files);

  bool encrypts() const { return tls_ != nullptr; }
  // kPlain, or the fingerprint of this rank's key.
  const std::string& own_key() const { return own_key_; }
  // Why the owner of that key may not take part; empty if he may.
  std::string reason_against(const std::string& fingerprint) const;

  // The two ends of a connection.
  std::unique_ptr<Connection> connect(Socket socket) const;
  std::unique_ptr<Connection> accept(Socket socket) const;

 private:
  std::shared_ptr<const TlsContext> tls_{};
  std::string own_key_ = kPlain;
  KeyFiles files_{};
};

// Which of the two it is: TLS at all addresses but loopback.
class SecurityPolicy {
 public:
  struct Options {
    bool encrypt = false;     // HEDDLE_COMM_ENCRYPT: also at loopback
    bool insecure = false;    // HEDDLE_COMM_INSECURE: nowhere
    std::string directory{};  // of the keys; empty: comm_keys_directory()
  };
  // Throws InvalidArgument if both are set, or a value is none.
  static SecurityPolicy from_environment();
  explicit SecurityPolicy(const Options& options) : options_(options) {}

  // Throws CommError if there are no keys where they are needed, or unusable ones. `what` is at the address: "the ranks
  // would meet at ...".
  Security at(const std::string& address, const std::string& what);

 private:
  Options options_;
  Security keys_;  // once they are needed
};

}  // namespace heddle::comm_detail
