#include "bootstrap/security.h"

#include <utility>

#include <heddle/comm_error.h>
#include <heddle/comm_keys.h>

#include "connection/environment.h"
#include "connection/interfaces.h"
#include "security/tls_connection.h"

namespace heddle::comm_detail {

using namespace net_detail;

Security::Security(const KeyFiles& files)
    : tls_(make_tls_context(files)), own_key_(fingerprint_of(files.key.get())), files_(files) {}

std::string Security::reason_against(const std::string& fingerprint) const {
  if (files_.allowed.contains(fingerprint)) return "";
  return "the key " + fingerprint + " is not in " + files_.allowed_file +
         ": add the line if it is one of yours";
}

std::unique_ptr<Connection> Security::connect(Socket socket) const {
  if (!tls_) return plain_connection(std::move(socket));
  return tls_connection(std::move(socket), tls_, TlsSide::client);
}

std::unique_ptr<Connection> Security::accept(Socket socket) const {
  if (!tls_) return plain_connection(std::move(socket));
  return tls_connection(std::move(socket), tls_, TlsSide::server);
}

SecurityPolicy SecurityPolicy::from_environment() {
  const Options options{flag_of("HEDDLE_COMM_ENCRYPT"), flag_of("HEDDLE_COMM_INSECURE"), ""};
  if (options.encrypt && options.insecure)
    throw InvalidArgument("HEDDLE_COMM_ENCRYPT and HEDDLE_COMM_INSECURE are both 1: which is it to be?");
  return SecurityPolicy(options);
}

Security SecurityPolicy::at(const std::string& address, const std::string& what) {
  if (options_.insecure || (!options_.encrypt && is_loopback_address(address))) return {};
  if (keys_.encrypts()) return keys_;
  const std::string directory = options_.directory.empty() ? comm_keys_directory() : options_.directory;
  const auto files = read_key_files(directory);
  if (!files) {
    throw CommError(
        what + (options_.encrypt ? ", encrypted" : ", which others can reach") + ", and there is no " +
        key_file_in(directory) +
        " to encrypt with: run `heddle keygen` on one host and copy what it makes to the others, or "
        "set HEDDLE_COMM_INSECURE=1 if everybody in that network may read and change messages");
  }
  return keys_ = Security(*files);
}

}  // namespace heddle::comm_detail
