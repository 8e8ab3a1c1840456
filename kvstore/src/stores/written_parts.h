// Which bytes of arrays a list of calls writes.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include <heddle/ndarray.h>

namespace heddle {

class WrittenParts {
 public:
  void add(const NDArray& array);
  // Whether the array may have bytes that were added, between its first and its last one.
  bool overlap(const NDArray& array) const;

 private:
  // The end of each part by its storage and its beginning. Between two parts of a storage there are bytes.
  std::map<std::pair<const Storage*, std::int64_t>, std::int64_t> parts_;
};

}  // namespace heddle
