// Sums whose rounding errors grow with the logarithm of their length.
#pragma once

#include <cstdint>

namespace heddle::cpu_kernels {

// term(begin) + ... + term(end - 1), in f64: a long range is summed by halves, a short one in eight partial
// sums (pairwise summation: Higham, SIAM J. Sci. Comput. 1993). The order depends on the length only.
template <class Term> double pairwise_sum(std::int64_t begin, std::int64_t end, const Term& term) {
  constexpr std::int64_t kBlock = 128, kParts = 8;
  if (end - begin > kBlock) {
    const std::int64_t half = (end - begin) / (2 * kParts) * kParts;
    return pairwise_sum(begin, begin + half, term) + pairwise_sum(begin + half, end, term);
  }
  double parts[kParts] = {};
  std::int64_t i = begin;
  for (; i + kParts <= end; i += kParts) {
    for (std::int64_t k = 0; k < kParts; ++k) parts[k] += static_cast<double>(term(i + k));
  }
  for (std::int64_t k = 0; i < end; ++i, ++k) parts[k] += static_cast<double>(term(i));
  return ((parts[0] + parts[1]) + (parts[2] + parts[3])) + ((parts[4] + parts[5]) + (parts[6] + parts[7]));
}

}  // namespace heddle::cpu_kernels
