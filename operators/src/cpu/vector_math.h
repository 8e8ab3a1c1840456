// Functions of one float that the compiler can turn into vector code: no branches, no calls, about one ulp of error.
// The overloads for double are the C library's. Inlined always: a loop that calls a function has no vector code.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace heddle::cpu_kernels {

[[gnu::always_inline]] inline float power_of_two(std::int32_t exponent) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23);
}

// e^x = 2^n * e^r with |r| <= log(2)/2, e^r by its Taylor series. log(2) comes in two parts, the first with so few
// bits that n times it is exact.
[[gnu::always_inline]] inline float fast_exp(float x) {
  constexpr float kLog2Head = 0.693359375f, kLog2Tail = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer, left in the low bits
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  const float shifted = x * 1.44269504f + kRound;
  const std::int32_t n = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRound);
  const float rounded = shifted - kRound;
  const float r = (x - rounded * kLog2Head) - rounded * kLog2Tail;
  float series = 1.0f / 5040;
  series = series * r + 1.0f / 720;
  series = series * r + 1.0f / 120;
  series = series * r + 1.0f / 24;
  series = series * r + 1.0f / 6;
  series = series * r + 0.5f;
  series = series * r + 1.0f;
  series = series * r + 1.0f;
  const std::int32_t half = n >> 1;  // scaling in two steps reaches subnormal results and infinity
  return series * power_of_two(half) * power_of_two(n - half);
}

// log(x) = e log(2) + 2 atanh(s) with x = 2^e m, m in [sqrt(1/2), sqrt(2)), s = (m - 1) / (m + 1).
[[gnu::always_inline]] inline float fast_log(float x) {
  constexpr float kLog2Head = 0.693359375f, kLog2Tail = -2.12194440e-4f;
  const bool subnormal = x < std::numeric_limits<float>::min();
  const float scaled = subnormal ? x * 8388608.0f : x;  // 2^23
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(scaled);
  const std::int32_t above = static_cast<std::int32_t>(bits - 0x3f3504f3u) >> 23;  // 0x3f3504f3: sqrt(1/2)
  const float m = std::bit_cast<float>(bits - (static_cast<std::uint32_t>(above) << 23));
  const float e = static_cast<float>(subnormal ? above - 23 : above);
  const float s = (m - 1.0f) / (m + 1.0f), z = s * s;
  float series = 2.0f / 11;
  series = series * z + 2.0f / 9;
  series = series * z + 2.0f / 7;
  series = series * z + 2.0f / 5;
  series = series * z + 2.0f / 3;
  const float tail = s * z * series + e * kLog2Tail;
  float result = e * kLog2Head + (2.0f * s + tail);
  result = x == std::numeric_limits<float>::infinity() ? x : result;
  result = x == 0.0f ? -std::numeric_limits<float>::infinity() : result;
  return x >= 0.0f ? result : std::numeric_limits<float>::quiet_NaN();
}

// e^x - 1 = 2^n p + (2^n - 1) for |x| < 88, where p = e^r - 1 as in fast_exp(): no digits are lost near 0.
[[gnu::always_inline]] inline float expm1_in_range(float x) {
  constexpr float kLog2Head = 0.693359375f, kLog2Tail = -2.12194440e-4f, kRound = 12582912.0f;
  const float shifted = x * 1.44269504f + kRound;
  const std::int32_t n = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRound);
  const float rounded = shifted - kRound;
  const float r = (x - rounded * kLog2Head) - rounded * kLog2Tail;
  float series = 1.0f / 5040;
  series = series * r + 1.0f / 720;
  series = series * r + 1.0f / 120;
  series = series * r + 1.0f / 24;
  series = series * r + 1.0f / 6;
  series = series * r + 0.5f;
  const float p = r + r * r * series, power = power_of_two(n);
  return power * p + (power - 1.0f);
}

// tanh|x| = d / (d + 2) with d = e^(2|x|) - 1.
[[gnu::always_inline]] inline float fast_tanh(float x) {
  const float size = std::fabs(x), d = expm1_in_range(size > 10.0f ? 20.0f : 2.0f * size);
  return std::copysign(d / (d + 2.0f), x);
}

[[gnu::always_inline]] inline float fast_expm1(float x) {
  const float result = expm1_in_range(x > 88.0f ? 88.0f : x < -18.0f ? -18.0f : x);
  return x > 88.0f ? fast_exp(x) : x == 0.0f ? x : result;
}

// The distribution function of the normal distribution: of -|x| it is exp(-x^2 / 2) t p(t) with t = 1 / (1 + 0.3 |x| / sqrt(2)).
// The polynomial is fitted to exp(z^2) erfc(z) / 2 for z up to 10, with a relative error of 2e-8.
[[gnu::always_inline]] inline float fast_normal_cdf(float x) {
  const float t = 1.0f / (1.0f + 0.21213203f * std::fabs(x));
  float p = -0.064761482f;
  p = p * t + 0.24278176f;
  p = p * t - 0.25613943f;
  p = p * t + 0.27386051f;
  p = p * t - 0.047325753f;
  p = p * t + 0.10746322f;
  p = p * t + 0.074169531f;
  p = p * t + 0.085357612f;
  p = p * t + 0.084594004f;
  const float tail = p * t * fast_exp(x * x * -0.5f);
  return x < 0.0f ? tail : 1.0f - tail;
}

// Uses the exponential of a negative number, since that of a positive one overflows where the result is still
// subnormal.
[[gnu::always_inline]] inline float fast_sigmoid(float x) {
  const float e = fast_exp(-std::fabs(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

[[gnu::always_inline]] inline double fast_exp(double x) { return std::exp(x); }
[[gnu::always_inline]] inline double fast_log(double x) { return std::log(x); }
[[gnu::always_inline]] inline double fast_tanh(double x) { return std::tanh(x); }
[[gnu::always_inline]] inline double fast_sigmoid(double x) {
  const double e = std::exp(-std::fabs(x));
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

}  // namespace heddle::cpu_kernels
