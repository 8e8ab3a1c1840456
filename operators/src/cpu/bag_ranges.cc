#include "cpu/bag_ranges.h"

#include <string>
#include <type_traits>
#include <utility>

#include <heddle/dtype.h>

#include "core/data_error.h"

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
          refuse_offset(op, std::to_string(offset), static_cast<std::int64_t>(i), total);
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
  if (!begins_.empty() && begins_[0] != 0) refuse_first_offset(op, begins_[0]);
  for (std::size_t i = 1; i < begins_.size(); ++i) {
    if (begins_[i] >= begins_[i - 1]) continue;
    refuse_falling_offset(op, begins_[i - 1], begins_[i], static_cast<std::int64_t>(i));
  }
  begins_.push_back(total);
}

}  // namespace heddle::cpu_kernels
