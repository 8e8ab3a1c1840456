// The positions of bags of indices, for kernels.
#pragma once

#include <cstdint>
#include <vector>

#include <heddle/ndarray.h>

namespace heddle::cpu_kernels {

// Bag b has the positions from begin(b) to begin(b + 1) of `total` indices.
class BagRanges {
 public:
  // offsets: integers, one for each bag, or undefined; then each bag has `length` positions. Throws InvalidIndex, naming `op`, unless
  // offsets begin with 0, do not fall, and stay within `total`.
  BagRanges(const char* op, const NDArray& offsets, std::int64_t length, std::int64_t total);
  std::int64_t begin(std::int64_t bag) const {
    return begins_.empty() ? bag * length_ : begins_[static_cast<std::size_t>(bag)];
  }
  std::int64_t end(std::int64_t bag) const { return begin(bag + 1); }

 private:
  std::int64_t length_;
  std::vector<std::int64_t> begins_;  // with the end of the last bag
};

}  // namespace heddle::cpu_kernels
