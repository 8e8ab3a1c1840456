#include <algorithm>
#include <cstdlib>
#include <utility>

#include <heddle/ndarray.h>

#include "arrays/layout.h"

namespace heddle {

namespace {

// Python's slice.indices: the first index and how many follow.
struct Range {
  std::int64_t begin, count;
};

std::int64_t clamp_index(std::int64_t index, std::int64_t n, std::int64_t low, std::int64_t high) {
  if (index < 0) index = index < -n ? low : index + n;
  return std::clamp(index, low, high);
}

Range resolve(const Slice& slice, std::int64_t n) {
  const std::int64_t low = slice.step > 0 ? 0 : -1;
  const std::int64_t high = slice.step > 0 ? n : n - 1;
  const std::int64_t begin = slice.begin      ? clamp_index(*slice.begin, n, low, high)
                             : slice.step > 0 ? 0
                                              : n - 1;
  const std::int64_t end = slice.end ? clamp_index(*slice.end, n, low, high) : slice.step > 0 ? n : -1;
  const std::int64_t span = slice.step > 0 ? end - begin : begin - end;
  if (span <= 0) return {begin, 0};
  // in unsigned numbers, the only ones in which the smallest step has an absolute value
  const auto step = static_cast<std::uint64_t>(slice.step);
  const std::uint64_t stride = slice.step > 0 ? step : 0 - step;
  return {begin, static_cast<std::int64_t>((static_cast<std::uint64_t>(span) - 1) / stride) + 1};
}

[[noreturn]] void outside(const Shape& shape, const Strides& strides, std::int64_t offset,
                          std::int64_t held) {
  throw InvalidArgument("view: shape " + shape.to_string() + ", strides " + strides.to_string() +
                        " and offset " + std::to_string(offset) + " reach outside a storage of " +
                        std::to_string(held) + " elements");
}

void check_inside(const Shape& shape, const Strides& strides, std::int64_t offset, std::int64_t held) {
  std::int64_t first = offset, last = offset;
  const bool none = element_count(shape) == 0;
  for (int i = 0; i < shape.size() && !none; ++i) {
    std::int64_t reach;
    std::int64_t& end = strides[i] < 0 ? first : last;
    if (__builtin_mul_overflow(shape[i] - 1, strides[i], &reach) ||
        __builtin_add_overflow(end, reach, &end)) {
      outside(shape, strides, offset, held);
    }
  }
  if (first < 0 || last > held - (none ? 0 : 1)) outside(shape, strides, offset, held);
}

// Puts what is missing in the place of a -1.
Shape complete(Shape shape, std::int64_t size) {
  int missing = -1;
  std::int64_t known = 1;
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] != -1) continue;
    if (missing >= 0) throw InvalidArgument("view_as: more than one -1 in " + shape.to_string());
    missing = i;
  }
  if (missing < 0) return shape;
  Shape others = shape;
  others[missing] = 1;
  known = element_count(others);
  if (known > 0 && size % known == 0) shape[missing] = size / known;
  return shape;
}

}  // namespace

namespace ndarray_detail {

Extent extent_of(const NDArray& array) {
  Extent extent{array.offset(), array.offset()};
  for (int i = 0; i < array.ndim(); ++i) {
    const std::int64_t reach = (array.shape()[i] - 1) * array.strides()[i];
    (reach < 0 ? extent.first : extent.last) += reach;
  }
  return extent;
}

bool may_overlap(const NDArray& a, const NDArray& b) {
  if (a.storage() != b.storage() || a.size() == 0 || b.size() == 0) return false;
  const Extent x = extent_of(a), y = extent_of(b);
  return x.first <= y.last && y.first <= x.last;
}

bool overlaps_itself(const Shape& shape, const Strides& strides) {
  Dims steps, counts;  // of the axes that move, shortest step first
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return false;
    if (shape[i] == 1) continue;
    steps.push_back(std::abs(strides[i]));
    counts.push_back(shape[i]);
    for (int k = steps.size() - 1; k > 0 && steps[k] < steps[k - 1]; --k) {
      std::swap(steps[k], steps[k - 1]);
      std::swap(counts[k], counts[k - 1]);
    }
  }
  std::int64_t reach = 0;
  for (int i = 0; i < steps.size(); ++i) {
    if (steps[i] <= reach) return true;
    reach += steps[i] * (counts[i] - 1);
  }
  return false;
}

}  // namespace ndarray_detail

NDArray NDArray::view(Shape shape, Strides strides, std::int64_t offset, Where where) const {
  const CallSite site(where);
  if (shape.size() != strides.size()) {
    throw InvalidArgument("view: shape " + shape.to_string() + " and strides " + strides.to_string() +
                          " differ in length");
  }
  check_inside(shape, strides, offset, static_cast<std::int64_t>(storage_->bytes() / size_of(dtype_)));
  NDArray result = detach();
  result.shape_ = shape;
  result.strides_ = strides;
  result.offset_ = offset;
  return result;
}

NDArray NDArray::operator[](Index at) const {
  const CallSite site(at.where);
  const std::int64_t index = at.value;
  if (ndim() == 0) throw InvalidArgument("an array without dimensions cannot be indexed");
  const std::int64_t n = shape_[0];
  if (index < -n || index >= n) {
    throw InvalidArgument("index " + std::to_string(index) + " is outside axis 0 of shape " +
                          shape_.to_string());
  }
  NDArray result = detach();
  result.shape_ = Dims(std::span(shape_.begin() + 1, shape_.end()));
  result.strides_ = Dims(std::span(strides_.begin() + 1, strides_.end()));
  result.offset_ += (index < 0 ? index + n : index) * strides_[0];
  return result;
}

NDArray NDArray::slice(int axis, Slice range, Where where) const {
  const CallSite site(where);
  if (range.step == 0) throw InvalidArgument("slice: the step must not be 0");
  const int at = normalize_axis(axis, ndim());
  const Range found = resolve(range, shape_[at]);
  NDArray result = detach();
  result.shape_[at] = found.count;
  // An empty or one-element axis never moves: its stride is left alone, for a huge step could overflow it.
  if (found.count > 0) result.offset_ += found.begin * strides_[at];
  if (found.count > 1) result.strides_[at] *= range.step;
  return result;
}

NDArray NDArray::view_as(Shape shape, Where where) const {
  const CallSite site(where);
  if (!is_contiguous()) {
    throw InvalidArgument("view_as: an array of shape " + shape_.to_string() + " with strides " +
                          strides_.to_string() + " is not contiguous; copy it first");
  }
  const Shape wanted = complete(shape, size());
  for (std::int64_t n : wanted) {
    if (n < 0)
      throw InvalidArgument("view_as: shape " + shape_.to_string() + " does not fit " + shape.to_string());
  }
  if (element_count(wanted) != size()) {
    throw InvalidArgument("view_as: shape " + shape_.to_string() + " has " + std::to_string(size()) +
                          " elements, " + shape.to_string() + " does not");
  }
  NDArray result = detach();
  result.shape_ = wanted;
  result.strides_ = contiguous_strides(wanted);
  return result;
}

NDArray NDArray::permuted(Dims axes, Where where) const {
  const CallSite site(where);
  if (axes.size() != ndim()) {
    throw InvalidArgument("permuted: axes " + axes.to_string() + " for shape " + shape_.to_string());
  }
  NDArray result = detach();
  unsigned seen = 0;
  for (int i = 0; i < ndim(); ++i) {
    const int axis = normalize_axis(axes[i], ndim());
    if (seen & (1u << axis))
      throw InvalidArgument("permuted: axes " + axes.to_string() + " name one axis twice");
    seen |= 1u << axis;
    result.shape_[i] = shape_[axis];
    result.strides_[i] = strides_[axis];
  }
  return result;
}

NDArray NDArray::broadcast_view(const Shape& shape, Where where) const {
  const CallSite site(where);
  const int added = shape.size() - ndim();
  NDArray result = detach();
  element_count(shape);
  result.shape_ = shape;
  result.strides_ = Dims::filled(shape.size(), 0);
  for (int i = 0; i < ndim(); ++i) {
    if (added < 0 || (shape_[i] != 1 && shape_[i] != shape[i + added])) {
      throw InvalidArgument("shape " + shape_.to_string() + " does not broadcast to " + shape.to_string());
    }
    if (shape_[i] != 1) result.strides_[i + added] = strides_[i];
  }
  return result;
}

}  // namespace heddle
