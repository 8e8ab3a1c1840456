// Rounding, signs, classes of numbers, and the bits of one operand.
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "cpu/map.h"
#include "cpu/register.h"
#include "kernels/elementwise_kernels.h"

namespace heddle::cpu_kernels {

namespace {

struct Floor {
  template <class T> T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::floor(x);
    return x;
  }
};
struct Ceil {
  template <class T> T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::ceil(x);
    return x;
  }
};
// The mode of rounding is always to the nearest, halves to even.
struct Round {
  template <class T> T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::nearbyint(x);
    return x;
  }
};
struct Trunc {
  template <class T> T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::trunc(x);
    return x;
  }
};
struct Sign {
  template <class T> T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) {
      return x > 0 ? T{1} : x < 0 ? T{-1} : x == 0 ? T{0} : x;
    } else {
      return static_cast<T>((x > T{0}) - (x < T{0}));
    }
  }
};

// By their bits, which no option of the compiler takes for those of an ordinary number.
template <class T> using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
template <class T> constexpr Bits<T> kInfinity = std::bit_cast<Bits<T>>(std::numeric_limits<T>::infinity());
template <class T> Bits<T> magnitude(T x) { return std::bit_cast<Bits<T>>(x) << 1 >> 1; }

struct IsNan {
  template <class T> bool operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return magnitude(x) > kInfinity<T>;
    return false;
  }
};
struct IsInf {
  template <class T> bool operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return magnitude(x) == kInfinity<T>;
    return false;
  }
};
struct IsFinite {
  template <class T> bool operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return magnitude(x) < kInfinity<T>;
    return true;
  }
};
struct SignBit {
  template <class T> bool operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return magnitude(x) != std::bit_cast<Bits<T>>(x);
    return x < T{0};
  }
};

struct Invert {
  template <class T> T operator()(T x) const {
    if constexpr (std::is_same_v<T, bool>)
      return !x;
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(~x);
    else
      return x;
  }
};

template <class F> void class_kernel(const NDArray& x, const NDArray& y) {
  if (is_half(x.dtype())) return map_half_unary<bool>(x, y, F{});
  visit_number(x.dtype(), [&]<class T> { map_unary<T, bool>(x, y, F{}); });
}

}  // namespace

void register_rounding(KernelTable& table) {
  const auto add = [&](const char* name, UnaryKernel* kernel) {
    table.add<UnaryKernel>(name, DeviceKind::cpu, kernel);
  };
  add("floor", unary_kernel<Floor>);
  add("ceil", unary_kernel<Ceil>);
  add("round", unary_kernel<Round>);
  add("trunc", unary_kernel<Trunc>);
  add("sign", unary_kernel<Sign>);
  add("isnan", class_kernel<IsNan>);
  add("isinf", class_kernel<IsInf>);
  add("isfinite", class_kernel<IsFinite>);
  add("signbit", class_kernel<SignBit>);
  add("bitwise_invert", unary_kernel<Invert>);
}

}  // namespace heddle::cpu_kernels
