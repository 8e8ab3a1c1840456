// The key by which this user's ranks know each other on other hosts. Made by `heddle keygen`.
#pragma once

#include <string>

namespace heddle {

struct CommKey {
  std::string file;  // DIRECTORY/comm.key, the private key
  std::string
      allowed_file;  // DIRECTORY/comm.allowed, a line for every key that may take part in this user's jobs
  std::string line;  // this key's: "sha256:" and 64 hexadecimal digits, a space, who made it where and when
};

// HEDDLE_COMM_KEYS, else `heddle` in $XDG_CONFIG_HOME, else in ~/.config. Throws CommError if none of them is set.
std::string comm_keys_directory();

// Makes a key, and the directory if there is none, and adds the key's line to comm.allowed; the other lines stay. Throws
// CommError if there is a key already that is not to be replaced, or for files that cannot be written.
CommKey make_comm_key(const std::string& directory, bool replace);

}  // namespace heddle
