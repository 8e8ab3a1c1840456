// Compiled for the machine's vector width if the build is (HEDDLE_ARCH): baseline x86-64 has no instruction
// for f16.
#include <heddle/half.h>

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace heddle {

namespace {

// widen_vectors() and narrow_vectors() return the number of elements that were converted, in whole vectors.
// The loops of widen() and narrow() convert the rest; the compiler vectorises those of bf16.
std::size_t widen_vectors([[maybe_unused]] const Float16* from, [[maybe_unused]] float* to,
                          [[maybe_unused]] std::size_t count) {
  std::size_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= count; i += 8) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(half));
  }
#endif
  return i;
}

std::size_t narrow_vectors([[maybe_unused]] const float* from, [[maybe_unused]] Float16* to,
                           [[maybe_unused]] std::size_t count) {
  std::size_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= count; i += 8) {
    const __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), half);
  }
#endif
  return i;
}

}  // namespace

void widen(const Float16* from, float* to, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = widen_vectors(from, to, count); i < count; ++i) to[i] = static_cast<float>(from[i]);
}

void narrow(const float* from, Float16* to, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = narrow_vectors(from, to, count); i < count; ++i) to[i] = Float16(from[i]);
}

void widen(const BFloat16* from, float* to, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

void narrow(const float* from, BFloat16* to, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) to[i] = BFloat16(from[i]);
}

}  // namespace heddle
