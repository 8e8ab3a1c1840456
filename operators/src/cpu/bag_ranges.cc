#include "cpu/bag_ranges.h"

#include <string>
#include <type_traits>
#include <utility>

#include <heddle/array_error.h>
#include <heddle/dtype.h>

namespace heddle::cpu_kernels {

namespace {

// The offsets, each from 0 to `total`.
std::vector<std::int64_t> checked_offsets(const char* op, const NDArray& offsets, std::int64_t total) {
  std::vector<std::int64_t> begins(static_cast<std::size_t>(offsets.size()));
  if (begins.empty()) return begins;
  const std::int64_t step = offsets.strides()[0];
  visit_number(offsets.dtype(), [&]<class T> {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      const T* const from = offsets.data<const T>();
      for (std::size_t i = 0; i < begins.size(); ++i) {
        const T offset = from[static_cast<std::int64_t>(i) * step];
        if (std::cmp_less(offset, 0) || std::cmp_greater(offset, total))
          throw InvalidIndex(std::string(op) + ": offset " + std::to_string(offset) + " at position " +
                             std::to_string(i) + " for " + std::to_string(total) + " indices; want 0 to " +
                             std::to_string(total));
        begins[i] = static_cast<std::int64_t>(offset);
      }
    }
  });
  return begins;
}

}  // namespace

BagRanges::BagRanges(const char* op, const NDArray& offsets, std::int64_t length, std::int64_t total)
    : length_(length) {
  if (!offsets.defined()) return;
  begins_ = checked_offsets(op, offsets, total);
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
