// The files of a user's keys, as jobs read them.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "net/tls_key.h"

namespace heddle::comm_detail {

std::string key_file_in(const std::string& directory);      // comm.key
std::string allowed_file_in(const std::string& directory);  // comm.allowed

struct KeyFiles {
  std::string allowed_file;
  TlsKey key{};
  std::set<std::string> allowed{};  // fingerprints
};

// Nothing: there is no comm.key. Throws CommError naming the file, and its line, for files that make no sense or that
// others can read (the key) or change (both), or whose directory others can change.
std::optional<KeyFiles> read_key_files(const std::string& directory);

}  // namespace heddle::comm_detail
