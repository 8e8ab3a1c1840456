// How sums of products are computed in kernels: how an element is loaded; Sum, in which products are added up; Total, in which sums are.
#pragma once

#include <cmath>

#include "gpu/elements.h"

namespace heddle::cuda_kernels {

// f32, f16 and bf16.
struct Floats {
  using Sum = float;
  using Total = double;
  static HEDDLE_DEVICE Sum load(const void* from, long long at, on_gpu::Type type) {
    return on_gpu::load<float>(from, at, type);
  }
  static HEDDLE_DEVICE Sum multiply_add(Sum sum, Sum a, Sum b) { return std::fma(a, b, sum); }
  static HEDDLE_DEVICE Total add(Total total, Sum sum) { return total + sum; }
};
struct Doubles {
  using Sum = double;
  using Total = double;
  static HEDDLE_DEVICE Sum load(const void* from, long long at, on_gpu::Type) {
    return static_cast<const double*>(from)[at];
  }
  static HEDDLE_DEVICE Sum multiply_add(Sum sum, Sum a, Sum b) { return std::fma(a, b, sum); }
  static HEDDLE_DEVICE Total add(Total total, Sum sum) { return total + sum; }
};
// Integers of up to 32 bits: the low bits of sums do not depend on the high ones.
struct Words {
  using Sum = std::uint32_t;
  using Total = std::uint32_t;
  static HEDDLE_DEVICE Sum load(const void* from, long long at, on_gpu::Type type) {
    const int bytes = on_gpu::size_of(type);
    if (bytes == 1) return static_cast<const std::uint8_t*>(from)[at];
    if (bytes == 2) return static_cast<const std::uint16_t*>(from)[at];
    return static_cast<const std::uint32_t*>(from)[at];
  }
  static HEDDLE_DEVICE Sum multiply_add(Sum sum, Sum a, Sum b) { return sum + a * b; }
  static HEDDLE_DEVICE Total add(Total total, Sum sum) { return total + sum; }
};
struct LongWords {
  using Sum = std::uint64_t;
  using Total = std::uint64_t;
  static HEDDLE_DEVICE Sum load(const void* from, long long at, on_gpu::Type) {
    return static_cast<const std::uint64_t*>(from)[at];
  }
  static HEDDLE_DEVICE Sum multiply_add(Sum sum, Sum a, Sum b) { return sum + a * b; }
  static HEDDLE_DEVICE Total add(Total total, Sum sum) { return total + sum; }
};
// bool: products are "and", sums "or".
struct Truths {
  using Sum = std::uint32_t;
  using Total = std::uint32_t;
  static HEDDLE_DEVICE Sum load(const void* from, long long at, on_gpu::Type) {
    return static_cast<const std::uint8_t*>(from)[at] != 0;
  }
  static HEDDLE_DEVICE Sum multiply_add(Sum sum, Sum a, Sum b) { return sum | (a & b); }
  static HEDDLE_DEVICE Total add(Total total, Sum sum) { return total | sum; }
};

// to[at] = a sum, rounded to the type or cut to its bits.
template <class Sum> HEDDLE_DEVICE void put_sum(void* to, long long at, on_gpu::Type type, Sum sum) {
  if constexpr (std::is_same_v<Sum, std::uint32_t>) {
    const int bytes = on_gpu::size_of(type);
    if (bytes == 1)
      static_cast<std::uint8_t*>(to)[at] = static_cast<std::uint8_t>(sum);
    else if (bytes == 2)
      static_cast<std::uint16_t*>(to)[at] = static_cast<std::uint16_t>(sum);
    else
      static_cast<std::uint32_t*>(to)[at] = sum;
  } else if constexpr (std::is_same_v<Sum, float>) {
    if (type == on_gpu::Type::f16)
      static_cast<on_gpu::F16*>(to)[at] = on_gpu::narrow(sum, on_gpu::F16{});
    else if (type == on_gpu::Type::bf16)
      static_cast<on_gpu::BF16*>(to)[at] = on_gpu::narrow(sum, on_gpu::BF16{});
    else
      static_cast<float*>(to)[at] = sum;
  } else {
    static_cast<Sum*>(to)[at] = sum;
  }
}

}  // namespace heddle::cuda_kernels
