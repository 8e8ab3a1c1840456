#include "cpu/bag_ranges.h"

#include <string>

#include <heddle/array_error.h>

#include "cpu/checked_indices.h"

namespace heddle::cpu_kernels {

BagRanges::BagRanges(const char* op, const NDArray& offsets, std::int64_t length, std::int64_t total)
    : length_(length) {
  if (!offsets.defined()) return;
  begins_ = checked_indices(op, offsets, total + 1, false);
  if (!begins_.empty() && begins_[0] != 0)
    throw InvalidIndex(std::string(op) + ": offsets begin with " + std::to_string(begins_[0]) + "; want 0");
  for (std::size_t i = 1; i < begins_.size(); ++i) {
    if (begins_[i] >= begins_[i - 1]) continue;
    throw InvalidIndex(std::string(op) + ": offsets fall from " + std::to_string(begins_[i - 1]) + " to " +
                       std::to_string(begins_[i]) + " at position " + std::to_string(i));
  }
  begins_.push_back(total);
}

}  // namespace heddle::cpu_kernels
