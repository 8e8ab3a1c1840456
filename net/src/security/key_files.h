// Reads the files of a user's keys.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "security/key_roles.h"
#include "security/tls_key.h"

namespace heddle::net_detail {

std::string key_file_in(const std::string& directory);      // comm.key
std::string allowed_file_in(const std::string& directory);  // comm.allowed
std::string curve_file_in(const std::string& directory);    // comm.curve

struct KeyFiles {
  std::string allowed_file;
  TlsKey key{};
  std::set<std::string> allowed{};          // fingerprints of the allowed keys
  std::string curve_secret{};               // for ZeroMQ, see curve_key.h; empty: there is no comm.curve
  std::set<std::string> curve_allowed{};    // allowed public keys for ZeroMQ
  std::map<std::string, KeyRoles> roles{};  // roles of keys, by fingerprint and by "curve:" and public key
};

// nullopt: there is no comm.key. Throws CommError naming the file, and its line, for invalid files, for files that
// other users can read (the key) or change (both), and for a directory that they can change.
std::optional<KeyFiles> read_key_files(const std::string& directory);

}  // namespace heddle::net_detail
