#include "stores/written_parts.h"

#include <algorithm>
#include <iterator>

namespace heddle {
namespace {

// The range [first, end) of bytes in its storage that the array lies in, including gaps between its elements.
// The array has an element at least.
std::pair<std::int64_t, std::int64_t> bytes_of(const NDArray& array) {
  std::int64_t first = array.offset(), last = first;
  for (int axis = 0; axis < array.ndim(); ++axis) {
    const std::int64_t reach = (array.shape()[axis] - 1) * array.strides()[axis];
    (reach < 0 ? first : last) += reach;
  }
  const auto size = static_cast<std::int64_t>(size_of(array.dtype()));
  return {first * size, (last + 1) * size};
}

}  // namespace

void WrittenParts::add(const NDArray& array) {
  if (array.size() == 0) return;
  const Storage* const storage = array.storage().get();
  auto [begin, end] = bytes_of(array);
  auto at = parts_.lower_bound({storage, begin});
  if (at != parts_.begin() && std::prev(at)->first.first == storage && std::prev(at)->second >= begin) --at;
  while (at != parts_.end() && at->first.first == storage && at->first.second <= end) {
    begin = std::min(begin, at->first.second);
    end = std::max(end, at->second);
    at = parts_.erase(at);
  }
  parts_[{storage, begin}] = end;
}

// Since ranges in parts_ do not overlap, only the last range that begins before the array's end can reach
// into the array.
bool WrittenParts::overlap(const NDArray& array) const {
  if (array.size() == 0 || parts_.empty()) return false;
  const Storage* const storage = array.storage().get();
  const auto [begin, end] = bytes_of(array);
  const auto behind = parts_.lower_bound({storage, end});
  if (behind == parts_.begin()) return false;
  const auto& [place, last] = *std::prev(behind);
  return place.first == storage && last > begin;
}

}  // namespace heddle
