// Arrays of random numbers, and comparisons with a tolerance.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <doctest/doctest.h>

#include <heddle/ndarray.h>
#include <heddle/random.h>

namespace heddle::test {

// Random numbers in [-1, 1), determined by the seed.
inline NDArray uniform(const Shape& shape, DType dtype, std::uint64_t seed) {
  return Generator(seed).uniform(shape, -1, 1, dtype);
}

// Checks that each element of `single` (f32) differs from that of `wide` (f64) by at most `tolerance` times
// max(1, its magnitude).
inline void check_close(const NDArray& single, const NDArray& wide, double tolerance) {
  REQUIRE(single.shape() == wide.shape());
  const auto got = single.to_vector<float>();
  const auto expected = wide.to_vector<double>();
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error =
        std::abs(static_cast<double>(got[i]) - expected[i]) / std::max(1.0, std::abs(expected[i]));
    worst = error > worst || std::isnan(error) ? error : worst;
  }
  CHECK(worst <= tolerance);
}

}  // namespace heddle::test
