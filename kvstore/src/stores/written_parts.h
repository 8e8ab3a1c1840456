// Remembers which bytes the calls of a list write, to find arrays that overlap.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include <heddle/ndarray.h>

namespace heddle {

class WrittenParts {
 public:
  void add(const NDArray& array);
  // True if a byte between the array's first and last byte belongs to an array that was added.
  bool overlap(const NDArray& array) const;

 private:
  // Ranges of written bytes: the end of each range, keyed by its storage and its first byte. Ranges of one
  // storage neither overlap nor touch.
  std::map<std::pair<const Storage*, std::int64_t>, std::int64_t> parts_;
};

}  // namespace heddle
