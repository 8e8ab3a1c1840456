// A number as an operand beside an array.
#pragma once

#include <compare>
#include <concepts>
#include <cstdint>
#include <ostream>
#include <string>
#include <type_traits>

#include <heddle/half.h>

namespace heddle {

namespace ndarray_detail {
template <class T>
concept Real = std::is_arithmetic_v<T> || is_half_type<T>;
}

// A number of any C++ type with all its digits. Beside an array it takes the array's dtype where its kind
// allows (NumPy's weak scalars): f32 * 2.5 is f32, i32 * 2 is i32, but i32 * 2.5 is f64, bool + 1 is i64 and
// bool + true is bool. An integer above the int64 range works with u64 and floating dtypes only.
class Scalar {
 public:
  template <std::integral T>
  Scalar(T value)
      : integer_(static_cast<std::int64_t>(value)),
        kind_(std::is_same_v<T, bool> ? Kind::boolean : Kind::integer) {
    if (std::is_unsigned_v<T> && integer_ < 0) kind_ = Kind::huge;
  }
  template <std::floating_point T> Scalar(T value) : real_(static_cast<double>(value)), kind_(Kind::real) {}
  template <class T>
  requires is_half_type<T> Scalar(T value) : Scalar(static_cast<double>(value)) {}

  bool is_boolean() const { return kind_ == Kind::boolean; }
  // True for a bool, false for an integer above the int64 range.
  bool is_integral() const { return kind_ <= Kind::integer; }
  bool is_real() const { return kind_ == Kind::real; }
  bool is_huge() const { return kind_ == Kind::huge; }  // an integer above the int64 range
  // The value, rounded to a double.
  double real() const {
    if (is_huge()) return static_cast<double>(static_cast<std::uint64_t>(integer_));
    return is_integral() ? static_cast<double>(integer_) : real_;
  }
  // Converts to T. An integer keeps its low bits; a real is truncated to an integer, as docs/dtypes.md says.
  template <class T> T as() const {
    if (is_integral()) return static_cast<T>(integer_);
    if constexpr (std::is_same_v<T, std::uint64_t>) {
      if (is_huge()) return static_cast<T>(integer_);
    }
    if constexpr (std::is_integral_v<T>) {
      return ndarray_detail::saturate<T>(real());
    } else {
      return static_cast<T>(real());
    }
  }
  // Converts like as<T>(): float v = x[3].item().
  template <ndarray_detail::Real T> operator T() const { return as<T>(); }
  std::string to_string() const;  // with all digits; "1" for true
  friend std::ostream& operator<<(std::ostream& out, const Scalar& x) { return out << x.to_string(); }

  // if (loss.item() < 0.1), total += loss.item(): a Scalar beside a number, or beside another Scalar, is a number. Integers
  // compare exactly; sums, differences, products and quotients are computed as doubles.
  friend std::partial_ordering operator<=>(const Scalar& a, const Scalar& b) { return a.compared_with(b); }
  friend bool operator==(const Scalar& a, const Scalar& b) { return a.compared_with(b) == 0; }
  template <ndarray_detail::Real T> friend std::partial_ordering operator<=>(const Scalar& a, T b) {
    return a.compared_with(b);
  }
  template <ndarray_detail::Real T> friend bool operator==(const Scalar& a, T b) {
    return a.compared_with(b) == 0;
  }
#define HEDDLE_SCALAR_OPERATOR(sign)                                                                       \
  friend double operator sign(const Scalar& a, const Scalar& b) { return a.real() sign b.real(); }         \
  template <ndarray_detail::Real T> friend double operator sign(const Scalar& a, T b) {                    \
    return a.real() sign static_cast<double>(b);                                                           \
  }                                                                                                        \
  template <ndarray_detail::Real T> friend double operator sign(T a, const Scalar& b) {                    \
    return static_cast<double>(a) sign b.real();                                                           \
  }                                                                                                        \
  template <ndarray_detail::Real T> friend T& operator sign##=(T& a, const Scalar& b) {                    \
    return a = b.is_real() && std::is_integral_v<T> ? static_cast<T>(static_cast<double>(a) sign b.real()) \
                                                    : static_cast<T>(a sign b.as<T>());                    \
  }
  HEDDLE_SCALAR_OPERATOR(+)
  HEDDLE_SCALAR_OPERATOR(-)
  HEDDLE_SCALAR_OPERATOR(*)
  HEDDLE_SCALAR_OPERATOR(/)
#undef HEDDLE_SCALAR_OPERATOR
  // Deleted, since an operator && of a class would always compute both operands. Write item<bool>() && ...
  template <class T> friend void operator&&(const Scalar&, const T&) = delete;
  template <class T> friend void operator||(const Scalar&, const T&) = delete;

 private:
  std::partial_ordering compared_with(const Scalar& other) const;
  union {
    std::int64_t integer_;
    double real_;
  };  // integer_ of a number of Kind::huge has the bits of a uint64
  enum class Kind : std::uint8_t { boolean, integer, huge, real } kind_;
};

}  // namespace heddle
