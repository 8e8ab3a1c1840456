// The bytes of arrays that the calls of a list write.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include <heddle/ndarray.h>

namespace heddle {

class WrittenParts {
 public:
  void add(const NDArray& array);
  // True if a byte between the array's first and last one has been added.
  bool overlap(const NDArray& array) const;

 private:
  // The end of each part, by its storage and its first byte. Parts of a storage neither overlap nor touch.
  std::map<std::pair<const Storage*, std::int64_t>, std::int64_t> parts_;
};

}  // namespace heddle
