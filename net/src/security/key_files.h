// Reads the files of a user's keys.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "security/key_roles.h"
#include "security/tls_key.h"

namespace heddle::net_detail {

std::string key_file_in(const std::string& directory);      // path of comm.key
std::string allowed_file_in(const std::string& directory);  // path of comm.allowed
std::string curve_file_in(const std::string& directory);    // path of comm.curve

struct KeyFiles {
  std::string allowed_file;
  TlsKey key{};
  std::set<std::string> allowed{};  // fingerprints of the allowed keys
  // This user's secret key for ZeroMQ, see curve_key.h; empty: there is no comm.curve.
  std::string curve_secret{};
  std::set<std::string> curve_allowed{};    // allowed public keys for ZeroMQ
  std::map<std::string, KeyRoles> roles{};  // roles of keys, by fingerprint and by "curve:" and public key
};

// Reads the key files of a directory. nullopt: there is no comm.key. Throws CommError naming the file, and
// its line, for invalid files. Also throws if other users can read comm.key or comm.curve, or can change one
// of the files or the directory.
std::optional<KeyFiles> read_key_files(const std::string& directory);

}  // namespace heddle::net_detail
