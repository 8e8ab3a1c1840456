// Philox, and numbers made of its words, for the CPU and for GPUs: C++17, as nvcc compiles it. Without fused multiply-adds the bits
// are the same everywhere.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define HEDDLE_RANDOM_FUNCTION __host__ __device__ inline
#else
#define HEDDLE_RANDOM_FUNCTION [[gnu::always_inline]] inline
#endif
#if defined(__CUDA_ARCH__)
#define HEDDLE_RANDOM_UNROLL(times) _Pragma("unroll")
#elif defined(__CUDACC__)
#define HEDDLE_RANDOM_UNROLL(times)
#else
#define HEDDLE_RANDOM_PRAGMA(text) _Pragma(#text)
#define HEDDLE_RANDOM_UNROLL(times) HEDDLE_RANDOM_PRAGMA(GCC unroll times)
#endif

namespace heddle::random_numbers {

template <class To, class From> HEDDLE_RANDOM_FUNCTION To bits_as(From from) {
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

constexpr std::uint32_t kFirstFactor = 0xD2511F53, kSecondFactor = 0xCD9E8D57;
constexpr std::uint32_t kFirstStep = 0x9E3779B9, kSecondStep = 0xBB67AE85;

HEDDLE_RANDOM_FUNCTION void ten_rounds(std::uint32_t& a, std::uint32_t& b, std::uint32_t& c, std::uint32_t& d,
                                       std::uint32_t key0, std::uint32_t key1) {
  HEDDLE_RANDOM_UNROLL(10)
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{kFirstFactor} * a, second = std::uint64_t{kSecondFactor} * c;
    a = static_cast<std::uint32_t>(second >> 32) ^ b ^ key0;
    b = static_cast<std::uint32_t>(second);
    c = static_cast<std::uint32_t>(first >> 32) ^ d ^ key1;
    d = static_cast<std::uint32_t>(first);
    key0 += kFirstStep;
    key1 += kSecondStep;
  }
}

// Uniform in [0, 1), of a word, or of two words for f64.
HEDDLE_RANDOM_FUNCTION float unit_of(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }
HEDDLE_RANDOM_FUNCTION double unit_of(std::uint64_t word) {
  return static_cast<double>(static_cast<std::int64_t>(word >> 11)) * 0x1p-53;
}

// Uniform in (0, 1], so that it has a logarithm. Small f32 keep all their bits, since they make the tail of
// the normal distribution.
HEDDLE_RANDOM_FUNCTION float positive_unit_of(std::uint32_t word) {
  return static_cast<float>((static_cast<double>(word) + 1) * 0x1p-32);
}
HEDDLE_RANDOM_FUNCTION double positive_unit_of(std::uint64_t word) { return 1 - unit_of(word); }

// A number in [low, high) for u in [0, 1). `last` is the largest number below high.
template <class T> HEDDLE_RANDOM_FUNCTION T between(T u, T low, T high, T last) {
  const T value = (1 - u) * low + u * high, above = value < low ? low : value;
  return above > last ? last : above;
}

// Exponent e and mantissa m in [sqrt(1/2), sqrt(2)) of x = 2^e m. The constants are sqrt(1/2), for f64 its high word.
HEDDLE_RANDOM_FUNCTION void split(float x, float& e, float& m) {
  const auto bits = bits_as<std::uint32_t>(x);
  const std::int32_t above = static_cast<std::int32_t>(bits - 0x3f3504f3u) >> 23;
  e = static_cast<float>(above);
  m = bits_as<float>(bits - (static_cast<std::uint32_t>(above) << 23));
}
HEDDLE_RANDOM_FUNCTION void split(double x, double& e, double& m) {
  const auto bits = bits_as<std::uint64_t>(x);
  const std::int32_t above =
      static_cast<std::int32_t>(static_cast<std::uint32_t>(bits >> 32) - 0x3fe6a09eu) >> 20;
  e = above;
  m = bits_as<double>(bits - (static_cast<std::uint64_t>(static_cast<std::uint32_t>(above)) << 52));
}

// log(x) = e log(2) + 2 atanh(s), s = (m - 1) / (m + 1), by atanh's series. x is a normal number in (0, 1].
template <class T> HEDDLE_RANDOM_FUNCTION T log_of(T x) {
  constexpr int kTerms = sizeof(T) == 4 ? 5 : 11;
  // log(2) in two parts, the first with so few bits that e times it is exact.
  constexpr T kHead = sizeof(T) == 4 ? T(0.693359375) : T(0x1.62e42feep-1);
  constexpr T kTail = sizeof(T) == 4 ? T(-2.12194440e-4) : T(0x1.a39ef35793c76p-33);
  T e, m;
  split(x, e, m);
  const T s = (m - 1) / (m + 1), z = s * s;
  T series = T(2) / (2 * kTerms + 1);
  HEDDLE_RANDOM_UNROLL(11)
  for (int k = kTerms - 1; k > 0; --k) series = series * z + T(2) / static_cast<T>(2 * k + 1);
  return e * kHead + (2 * s + (s * z * series + e * kTail));
}

// cos and sin of 2 pi u for u in [0, 1): Taylor's series of the angle relative to the nearest quarter.
template <class T> HEDDLE_RANDOM_FUNCTION void cos_and_sin(T u, T& cosine, T& sine) {
  constexpr int kTerms = sizeof(T) == 4 ? 5 : 9;
  const T quarters = 4 * u;
  const auto nearest = static_cast<std::int32_t>(quarters + T(0.5));
  const T x = (quarters - static_cast<T>(nearest)) * (T(3.14159265358979323846) / 2), z = x * x;
  T c = 1, s = 1;
  HEDDLE_RANDOM_UNROLL(9)
  for (int k = kTerms; k > 0; --k) {
    c = 1 - c * (z * (T(1) / static_cast<T>((2 * k - 1) * (2 * k))));
    s = 1 - s * (z * (T(1) / static_cast<T>((2 * k) * (2 * k + 1))));
  }
  s *= x;
  const bool swapped = nearest & 1;
  cosine = swapped ? s : c;
  sine = swapped ? c : s;
  cosine = (nearest + 1) & 2 ? -cosine : cosine;
  sine = nearest & 2 ? -sine : sine;
}

// Box and Muller (1958): makes two independent normal numbers of two uniform ones.
template <class T> HEDDLE_RANDOM_FUNCTION void box_muller(T mean, T stddev, T& first, T& second) {
  const T radius = std::sqrt(-2 * log_of(first));
  T cosine, sine;
  cos_and_sin(second, cosine, sine);
  first = mean + stddev * (radius * cosine);
  second = mean + stddev * (radius * sine);
}

// The high half of word * count: uniform over [0, count), with a bias below count / 2^64.
HEDDLE_RANDOM_FUNCTION std::uint64_t below(std::uint64_t word, std::uint64_t count) {
#ifdef __CUDA_ARCH__
  return __umul64hi(word, count);
#else
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(Wide{word} * count >> 64);
#endif
}

}  // namespace heddle::random_numbers
