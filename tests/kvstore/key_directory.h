// Directories with keys, for tests of permissions.
#pragma once

#include <string>

#include <heddle/comm_keys.h>

#include "files.h"

namespace heddle::test {

// A directory with a key of its own and its list of accepted keys.
struct KeyDirectory {
  TemporaryDirectory directory;
  CommKey key = make_comm_key(directory.path, false);
  // Makes this directory's list accept `other`'s key, with `roles` as that key's roles.
  void allow(const KeyDirectory& other, const std::string& roles) const {
    std::string line = other.key.line;
    const std::size_t begin = line.find("roles:"), end = line.find(' ', begin);
    line.replace(begin, end - begin, roles);
    write_file(key.allowed_file, key.line + "\n" + line + "\n");
  }
};

}  // namespace heddle::test
