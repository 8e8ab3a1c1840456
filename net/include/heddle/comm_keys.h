// The keys by which a user's ranks on different hosts authenticate each other. `heddle keygen` makes them.
#pragma once

#include <string>

namespace heddle {

struct CommKey {
  std::string file;  // DIRECTORY/comm.key, the private key
  // DIRECTORY/comm.allowed, a line for every key that may take part in the user's jobs.
  std::string allowed_file;
  // The key's line in allowed_file: "sha256:" and 64 hexadecimal digits, "curve:" and 40 characters (for
  // ZeroMQ), "roles:" and what its processes may do in key-value stores, "jobs:" and the jobs that they may
  // join if not all, user@host date.
  std::string line;
};

// The directory of the user's keys: HEDDLE_COMM_KEYS, else `heddle` in $XDG_CONFIG_HOME, else
// ~/.config/heddle. Throws CommError if none of HEDDLE_COMM_KEYS, XDG_CONFIG_HOME and HOME is set.
std::string comm_keys_directory();

// Makes a key (and comm.curve, the one for ZeroMQ, beside it), and the directory if it does not exist, and
// adds the key's line to comm.allowed. `roles`: some of "worker", "server" and "admin". `jobs`: the jobs that
// the key may join as a worker, such as "team-a-*,eval"; empty: all. Throws CommError if there is a key already
// and `replace` is false, for unknown roles and bad names of jobs, and for files that cannot be written.
CommKey make_comm_key(const std::string& directory, bool replace, const std::string& roles = "worker,server",
                      const std::string& jobs = "");

}  // namespace heddle
