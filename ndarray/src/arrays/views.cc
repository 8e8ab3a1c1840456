#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include <heddle/ndarray.h>

#include "arrays/layout.h"

namespace heddle {

namespace {

// Python's slice.indices: the first index and the number of indices.
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
  // The step is unsigned, because the absolute value of the smallest int64 is no int64.
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

// A view without elements is inside wherever it starts in the storage, even just behind the last element.
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

// Replaces a -1 in `shape` by the size that the other dimensions leave.
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
  for (std::int64_t n : others) {
    if (n < 0) return shape;
  }
  known = ndarray_detail::in_name_of("view_as", [&] { return element_count(others); });
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
  Dims steps, counts;  // axes with more than one element, shortest step first
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

bool broadcasts_to(const Shape& from, const Shape& to) {
  const int added = to.size() - from.size();
  if (added < 0) return false;
  for (int i = 0; i < from.size(); ++i) {
    if (from[i] != 1 && from[i] != to[i + added]) return false;
  }
  return true;
}

}  // namespace ndarray_detail

// The offset of an empty view stays unchanged, so that it is inside the storage.
NDArray NDArray::view_of(Shape shape, Strides strides, std::int64_t offset) const {
  NDArray result;
  result.storage_ = storage_;
  result.shape_ = shape;
  result.strides_ = strides;
  result.offset_ = element_count(shape) == 0 ? offset_ : offset;
  result.dtype_ = dtype_;
  return result;
}

NDArray NDArray::view(Shape shape, Strides strides, std::int64_t offset, Where where) const {
  const CallSite site(where);
  const auto held = static_cast<std::int64_t>(checked("view").storage_->bytes() / size_of(dtype_));
  if (shape.size() != strides.size()) {
    throw InvalidArgument("view: shape " + shape.to_string() + " and strides " + strides.to_string() +
                          " differ in length");
  }
  ndarray_detail::in_name_of("view", [&] { element_count(shape); });
  check_inside(shape, strides, offset, held);
  NDArray result = view_of(shape, strides, offset);
  if (grad_meta_) grad_meta_->record_view("view", result, *this);
  return result;
}

namespace {

void check_index(const char* name, int axis, std::int64_t index, const Shape& shape) {
  if (index >= -shape[axis] && index < shape[axis]) return;
  throw InvalidIndex(std::string(name) + ": index " + std::to_string(index) + " is out of range for axis " +
                     std::to_string(axis) + " of size " + std::to_string(shape[axis]) + ", in shape " +
                     shape.to_string());
}

[[noreturn]] void refuse_keys(int used, int ellipses, const Shape& shape) {
  throw InvalidIndex("operator(): " + (ellipses > 1
                                           ? std::to_string(ellipses) + " ellipses; wanted one at most"
                                           : "keys for " + std::to_string(used) +
                                                 " axes of an array of shape " + shape.to_string()));
}

// Called before an index removes its axis, so that errors number the axes as the caller does.
void check_indices(std::span<const AxisKey> keys, const Shape& shape, int of_ellipsis) {
  int axis = 0;
  for (const AxisKey& key : keys) {
    if (key.kind == AxisKey::Kind::index) check_index("operator()", axis, key.index, shape);
    axis += key.kind == AxisKey::Kind::index || key.kind == AxisKey::Kind::range;
    if (key.kind == AxisKey::Kind::ellipsis) axis += of_ellipsis;
  }
}

}  // namespace

NDArray NDArray::at_index(const char* name, int axis, std::int64_t index) const {
  const std::int64_t n = shape_[axis];
  check_index(name, axis, index, shape_);
  const std::int64_t at = index < 0 ? index + n : index;
  Shape shape;
  Strides strides;
  for (int d = 0; d < shape_.size(); ++d)
    if (d != axis) shape.push_back(shape_[d]), strides.push_back(strides_[d]);
  NDArray result = view_of(shape, strides, offset_ + at * strides_[axis]);
  if (grad_meta_) grad_meta_->record_slice(name, result, *this, axis, {at, at + 1});
  return result;
}

NDArray NDArray::with_axis(const char* name, int axis) const {
  Shape shape;
  Strides strides;
  for (int d = 0; d <= shape_.size(); ++d) {
    if (d == axis) shape.push_back(1), strides.push_back(1);
    if (d < shape_.size()) shape.push_back(shape_[d]), strides.push_back(strides_[d]);
  }
  NDArray result = view_of(shape, strides, offset_);
  if (grad_meta_) grad_meta_->record_elements(name, result, *this);
  return result;
}

NDArray NDArray::operator[](Index given) const {
  const CallSite site(given.where);
  if (checked("operator[]").shape_.empty())
    throw InvalidIndex("operator[]: an array of shape () has no axis to index");
  return at_index("operator[]", 0, given.value);
}

NDArray NDArray::operator()(const AxisKey& a, const AxisKey& b, const AxisKey& c, const AxisKey& d,
                            const AxisKey& e, const AxisKey& f, const AxisKey& g, const AxisKey& h) const {
  const AxisKey keys[] = {a, b, c, d, e, f, g, h};
  const auto* end = std::find_if(std::begin(keys), std::end(keys),
                                 [](const AxisKey& key) { return key.kind == AxisKey::Kind::none; });
  return keyed({keys, end}, a.where);
}

NDArray NDArray::keyed(std::span<const AxisKey> keys, Where where) const {
  const CallSite site(where);
  int used = 0, ellipses = 0;
  for (const AxisKey& key : keys) {
    used += key.kind == AxisKey::Kind::index || key.kind == AxisKey::Kind::range;
    ellipses += key.kind == AxisKey::Kind::ellipsis;
  }
  const int axes = checked("operator()").shape_.size();
  if (used > axes || ellipses > 1) refuse_keys(used, ellipses, shape_);
  check_indices(keys, shape_, axes - used);
  NDArray result = *this;
  int axis = 0;
  for (const AxisKey& key : keys) {
    switch (key.kind) {
      case AxisKey::Kind::none:
        break;
      case AxisKey::Kind::index:
        result = result.at_index("operator()", axis, key.index);
        break;
      case AxisKey::Kind::range:
        result = result.slice(axis++, key.range, where);
        break;
      case AxisKey::Kind::new_axis:
        result = result.with_axis("operator()", axis++);
        break;
      case AxisKey::Kind::ellipsis:
        axis += axes - used;
    }
  }
  return result;
}

NDArray NDArray::slice(int axis, Slice range, Where where) const {
  const CallSite site(where);
  const int at = ndarray_detail::axis_of("slice", axis, checked("slice").shape_);
  if (range.step == 0) throw InvalidArgument("slice: the step must not be 0");
  const Range found = resolve(range, shape_[at]);
  Shape shape = shape_;
  Strides strides = strides_;
  shape[at] = found.count;
  // The stride of an axis with less than two elements is unused and stays unchanged, since a huge step could
  // overflow it.
  if (found.count > 1) strides[at] *= range.step;
  NDArray result = view_of(shape, strides, found.count > 0 ? offset_ + found.begin * strides_[at] : offset_);
  if (grad_meta_) grad_meta_->record_slice("slice", result, *this, at, range);
  return result;
}

NDArray NDArray::view_as(Shape shape, Where where) const {
  const CallSite site(where);
  if (!checked("view_as").is_contiguous()) {
    throw InvalidArgument("view_as: an array of shape " + shape_.to_string() + " with strides " +
                          strides_.to_string() + " is not contiguous; copy it first");
  }
  const Shape wanted = complete(shape, size());
  for (std::int64_t n : wanted) {
    if (n < 0)
      throw InvalidArgument("view_as: shape " + shape_.to_string() + " does not fit " + shape.to_string());
  }
  if (ndarray_detail::in_name_of("view_as", [&] { return element_count(wanted); }) != size()) {
    throw InvalidArgument("view_as: shape " + shape_.to_string() + " has " + std::to_string(size()) +
                          " elements, " + shape.to_string() + " does not");
  }
  NDArray result = view_of(wanted, contiguous_strides(wanted), offset_);
  if (grad_meta_) grad_meta_->record_elements("view_as", result, *this);
  return result;
}

NDArray NDArray::permuted(Dims axes, Where where) const {
  const CallSite site(where);
  if (axes.size() != checked("permuted").shape_.size()) {
    throw InvalidArgument("permuted: axes " + axes.to_string() + " for shape " + shape_.to_string() +
                          "; wanted each of its " + std::to_string(ndim()) + " axes once");
  }
  Shape shape = shape_;
  Strides strides = strides_;
  unsigned seen = 0;
  for (int i = 0; i < ndim(); ++i) {
    const int axis = ndarray_detail::axis_of("permuted", axes[i], shape_);
    if (seen & (1u << axis)) {
      throw InvalidArgument("permuted: axes " + axes.to_string() + " for shape " + shape_.to_string() +
                            " name axis " + std::to_string(axis) + " twice");
    }
    seen |= 1u << axis;
    shape[i] = shape_[axis];
    strides[i] = strides_[axis];
  }
  NDArray result = view_of(shape, strides, offset_);
  if (grad_meta_) grad_meta_->record_permuted("permuted", result, *this, axes);
  return result;
}

NDArray NDArray::broadcast_view(const Shape& shape, Where where) const {
  const CallSite site(where);
  checked("broadcast_view");
  ndarray_detail::in_name_of("broadcast_view", [&] { element_count(shape); });
  if (!ndarray_detail::broadcasts_to(shape_, shape)) {
    throw InvalidArgument("broadcast_view: " + shape_.to_string() + " does not broadcast to " +
                          shape.to_string());
  }
  const int added = shape.size() - ndim();
  Strides strides = Dims::filled(shape.size(), 0);
  for (int i = 0; i < ndim(); ++i) {
    if (shape_[i] != 1) strides[i + added] = strides_[i];
  }
  NDArray result = view_of(shape, strides, offset_);
  if (grad_meta_) grad_meta_->record_broadcast("broadcast_view", result, *this);
  return result;
}

}  // namespace heddle
