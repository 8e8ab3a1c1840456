// The position of an array's elements in its storage.
#pragma once

#include <cstdint>

#include <heddle/ndarray.h>

namespace heddle::ndarray_detail {

// Offsets of the lowest and the highest element in memory, both inclusive; for arrays with at least one
// element.
struct Extent {
  std::int64_t first, last;
};
Extent extent_of(const NDArray& array);

// Whether a and b may have an element in common: they have the same storage, and their extents overlap.
bool may_overlap(const NDArray& a, const NDArray& b);

// Whether two elements of one array may share memory, as in a broadcast view. Exact for slices, permutations and
// broadcasts of contiguous arrays; for other strides it may be true although no two elements do.
bool overlaps_itself(const Shape& shape, const Strides& strides);

// Whether an array of shape `from` broadcasts to `to`: broadcasting both gives `to`.
bool broadcasts_to(const Shape& from, const Shape& to);

}  // namespace heddle::ndarray_detail
