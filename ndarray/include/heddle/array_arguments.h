// Argument types that carry the call site, for operators that cannot have a parameter `where`: x[i], -x, out
// << x.
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>

#include <heddle/call_site.h>
#include <heddle/scalar.h>
#include <heddle/shape.h>

namespace heddle {

class NDArray;

// begin, end and step along one axis, as in Python; steps may be negative.
struct Slice {
  std::optional<std::int64_t> begin{}, end{};
  std::int64_t step = 1;
};

// The index i in x[i], with the call site.
struct Index {
  template <ndarray_detail::Size T>
  Index(T index, Where at = Where::current()) : value(static_cast<std::int64_t>(index)), where(at) {}
  std::int64_t value;
  Where where;
};

// The slice in x[kAll] or x[Slice{1, 3}], along axis 0, with the call site.
struct RangeIndex {
  RangeIndex(const Slice& of, Where at = Where::current()) : slice(of), where(at) {}
  Slice slice;
  Where where;
};

// Keys of x(...). kNewAxis makes an axis of length 1; kEllipsis stands for all axes that no other key
// selects.
enum class NewAxis { here };
enum class Ellipsis { here };
inline constexpr Slice kAll{};
inline constexpr NewAxis kNewAxis = NewAxis::here;
inline constexpr Ellipsis kEllipsis = Ellipsis::here;

// Whether an array is among the keys of x(...).
template <class... Keys>
concept AnyArray = (std::is_convertible_v<const Keys&, NDArray> || ...);

// One of the keys of x(...), which says what to take of an axis.
struct AxisKey {
  enum class Kind : std::uint8_t { none, index, range, new_axis, ellipsis };
  AxisKey() = default;
  template <ndarray_detail::Size T>
  AxisKey(T at_index, Where at = Where::current())
      : kind(Kind::index), index(static_cast<std::int64_t>(at_index)), where(at) {}
  AxisKey(const Slice& of, Where at = Where::current()) : kind(Kind::range), range(of), where(at) {}
  AxisKey(NewAxis, Where at = Where::current()) : kind(Kind::new_axis), where(at) {}
  AxisKey(Ellipsis, Where at = Where::current()) : kind(Kind::ellipsis), where(at) {}
  Kind kind = Kind::none;
  std::int64_t index = 0;
  Slice range{};
  Where where{};
};

// The right-hand side y in x[i] = y, an array or a number, with the call site.
struct Assigned {
  template <ndarray_detail::Real T>
  Assigned(T value, Where at = Where::current()) : number(value), where(at) {}
  Assigned(const Scalar& value, Where at = Where::current()) : number(value), where(at) {}
  Assigned(const NDArray& source, Where at = Where::current()) : array(&source), where(at) {}
  // The assigned array, which outlives this object; null if a number is assigned.
  const NDArray* array = nullptr;
  Scalar number = 0;
  Where where;
};

// The array x in -x or in out << x, with the call site. It refers to x, which must outlive it.
struct ArrayArgument {
  ArrayArgument(const NDArray& x, Where at = Where::current()) : array(x), where(at) {}
  const NDArray& array;
  Where where;
};

}  // namespace heddle
