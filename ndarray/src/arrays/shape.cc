#include <algorithm>

#include <heddle/error.h>
#include <heddle/shape.h>

namespace heddle {

namespace {

[[noreturn]] void too_many_dims(std::size_t count) {
  throw InvalidArgument("Dims: an array has at most " + std::to_string(kMaxDims) + " dimensions, not " +
                        std::to_string(count));
}

}  // namespace

Dims::Dims(std::initializer_list<std::int64_t> values)
    : Dims(std::span<const std::int64_t>(values.begin(), values.size())) {}

Dims::Dims(std::span<const std::int64_t> values) {
  if (values.size() > kMaxDims) too_many_dims(values.size());
  std::copy(values.begin(), values.end(), values_.begin());
  size_ = static_cast<int>(values.size());
}

Dims Dims::filled(int count, std::int64_t value) {
  Dims dims;
  for (int i = 0; i < count; ++i) dims.push_back(value);
  return dims;
}

void Dims::push_back(std::int64_t value) {
  if (size_ == kMaxDims) too_many_dims(kMaxDims + 1);
  values_[static_cast<std::size_t>(size_++)] = value;
}

bool Dims::operator==(const Dims& other) const {
  return std::equal(begin(), end(), other.begin(), other.end());
}

std::string Dims::to_string() const {
  std::string text = "(";
  for (int i = 0; i < size_; ++i) text += (i ? ", " : "") + std::to_string((*this)[i]);
  return text + (size_ == 1 ? ",)" : ")");
}

std::int64_t element_count(const Shape& shape) {
  // A dimension of size 0 is counted as 1, so that the strides of an empty shape cannot overflow either.
  std::int64_t count = 1;
  bool none = false;
  for (std::int64_t n : shape) {
    if (n < 0) throw InvalidArgument("element_count: shape " + shape.to_string() + " has a negative number");
    none |= n == 0;
    if (__builtin_mul_overflow(count, std::max<std::int64_t>(n, 1), &count)) {
      throw InvalidArgument("element_count: shape " + shape.to_string() +
                            " has more elements than fit 64 bits");
    }
  }
  return none ? 0 : count;
}

Strides contiguous_strides(const Shape& shape) {
  element_count(shape);
  Strides strides = Dims::filled(shape.size(), 1);
  for (int i = shape.size() - 2; i >= 0; --i) {
    strides[i] = strides[i + 1] * std::max<std::int64_t>(shape[i + 1], 1);
  }
  return strides;
}

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  const int ndim = std::max(a.size(), b.size());
  Shape result = Dims::filled(ndim, 1);
  for (int i = 1; i <= ndim; ++i) {
    const std::int64_t m = i <= a.size() ? a[a.size() - i] : 1;
    const std::int64_t n = i <= b.size() ? b[b.size() - i] : 1;
    if (m != n && m != 1 && n != 1) {
      throw InvalidArgument("broadcast_shapes: shapes " + a.to_string() + " and " + b.to_string() +
                            " do not broadcast together");
    }
    result[ndim - i] = m == 1 ? n : m;
  }
  return result;
}

int normalize_axis(std::int64_t axis, int ndim) {
  if (axis < -ndim || axis >= ndim) {
    throw InvalidArgument("normalize_axis: axis " + std::to_string(axis) + " of an array with " +
                          std::to_string(ndim) + " dimensions");
  }
  return static_cast<int>(axis < 0 ? axis + ndim : axis);
}

int ndarray_detail::axis_of(const char* name, std::int64_t axis, const Shape& shape) {
  if (axis >= -shape.size() && axis < shape.size()) return normalize_axis(axis, shape.size());
  throw InvalidArgument(std::string(name) + ": axis " + std::to_string(axis) + " of an array of shape " +
                        shape.to_string() + ", which has " + std::to_string(shape.size()) + " dimensions");
}

std::ostream& operator<<(std::ostream& out, const Dims& dims) { return out << dims.to_string(); }

}  // namespace heddle
