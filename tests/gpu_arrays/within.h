// Comparison of results with a tolerance of the test's own.
#pragma once

#include <cmath>

#include "compare.h"

namespace heddle::test {

// Whether shapes and dtypes are equal, `there` is on gpu(0), and values differ by `relative` of the CPU's or by `absolute` at most.
inline bool within(const NDArray& here, const NDArray& there, double relative, double absolute) {
  if (here.dtype() != there.dtype() || here.shape() != there.shape() || there.device() != gpu(0))
    return false;
  const auto a = here.astype(DType::f64).to_vector<double>(),
             b = there.copy_to(cpu()).astype(DType::f64).to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (!(std::fabs(a[i] - b[i]) <= relative * std::fabs(a[i]) + absolute)) return false;
  }
  return true;
}

// How many values differ by more than `relative` of the CPU's; a million if shapes, dtypes or the device do. Where a rounding decides
// which number is drawn, few values differ by much.
inline std::size_t different(const NDArray& here, const NDArray& there, double relative) {
  if (here.dtype() != there.dtype() || here.shape() != there.shape() || there.device() != gpu(0))
    return 1000000;
  const auto a = here.astype(DType::f64).to_vector<double>(),
             b = there.copy_to(cpu()).astype(DType::f64).to_vector<double>();
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    count += !(std::fabs(a[i] - b[i]) <= relative * std::fabs(a[i]) + 1e-300);
  }
  return count;
}

// A tolerance of `ulps` units in the last place, for numbers of the dtype.
inline double ulps_of(DType dtype, double ulps) {
  return ulps * (dtype == DType::f64   ? 0x1p-52
                 : dtype == DType::f32 ? 0x1p-23
                 : dtype == DType::f16 ? 0x1p-10
                                       : 0x1p-7);
}

}  // namespace heddle::test
