// Directories of keys, for tests of who may do what.
#pragma once

#include <string>

#include <heddle/comm_keys.h>

#include "files.h"

namespace heddle::test {

// A directory with a key of its own, and others on its list.
struct KeyDirectory {
  TemporaryDirectory directory;
  CommKey key = make_comm_key(directory.path, false);
  // `roles`: of the other key here.
  void allow(const KeyDirectory& other, const std::string& roles) const {
    std::string line = other.key.line;
    const std::size_t begin = line.find("roles:"), end = line.find(' ', begin);
    line.replace(begin, end - begin, roles);
    write_file(key.allowed_file, key.line + "\n" + line + "\n");
  }
};

}  // namespace heddle::test
