// Sums of f64 in a fixed order.
#pragma once

#include <array>
#include <cstdint>

namespace heddle::cpu_kernels {

// The sum of term(0) to term(n - 1) in f64: eight sums, which vectors add.
template <class Term> double sum_in_order(std::int64_t n, const Term& term) {
  constexpr std::int64_t kLanes = 8;
  std::array<double, kLanes> lanes{};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::int64_t k = 0; k < kLanes; ++k) lanes[static_cast<std::size_t>(k)] += term(i + k);
  }
  for (std::int64_t k = 0; i < n; ++i, ++k) lanes[static_cast<std::size_t>(k)] += term(i);
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace heddle::cpu_kernels
