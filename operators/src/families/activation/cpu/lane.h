// Lane: one number of a kernel, with the operators and functions that arrays have, so that one expression is both a
// kernel and a composition of operators.
#pragma once

#include <cmath>

#include "cpu/vector_math.h"
#include "families/elementwise/cpu/vector_library.h"

namespace heddle::cpu_kernels {

namespace lane_functions {
HEDDLE_VECTOR_FUNCTION(erfc)
HEDDLE_VECTOR_FUNCTION(expm1)
HEDDLE_VECTOR_FUNCTION(log1p)

[[gnu::always_inline]] inline float normal_cdf_of(float x) { return fast_normal_cdf(x); }
[[gnu::always_inline]] inline double normal_cdf_of(double x) {
  return Vector_erfc()(x * -0.70710678118654752) * 0.5;
}
[[gnu::always_inline]] inline float expm1_of(float x) { return fast_expm1(x); }
[[gnu::always_inline]] inline double expm1_of(double x) { return Vector_expm1()(x); }
}  // namespace lane_functions

// T is float or double; the numbers of an expression are rounded to T. NaN passes through maximum and minimum.
template <class T> struct Lane {
  struct Condition {
    bool holds;
  };

  T value;
  [[gnu::always_inline]] Lane(double number) : value(static_cast<T>(number)) {}
  [[gnu::always_inline]] static Lane of(T number) { return Lane(number, Exact()); }

#define HEDDLE_LANE(declaration, result) \
  [[gnu::always_inline]] friend Lane declaration { return Lane::of(result); }
  HEDDLE_LANE(operator-(Lane a), -a.value)
  HEDDLE_LANE(operator+(Lane a, Lane b), a.value + b.value)
  HEDDLE_LANE(operator-(Lane a, Lane b), a.value - b.value)
  HEDDLE_LANE(operator*(Lane a, Lane b), a.value* b.value)
  HEDDLE_LANE(operator/(Lane a, Lane b), a.value / b.value)
  HEDDLE_LANE(abs(Lane x), std::fabs(x.value))
  HEDDLE_LANE(square(Lane x), x.value* x.value)
  HEDDLE_LANE(exp(Lane x), fast_exp(x.value))
  HEDDLE_LANE(log(Lane x), fast_log(x.value))
  HEDDLE_LANE(sqrt(Lane x), std::sqrt(x.value))
  HEDDLE_LANE(tanh(Lane x), fast_tanh(x.value))
  HEDDLE_LANE(sigmoid(Lane x), fast_sigmoid(x.value))
  HEDDLE_LANE(normal_cdf(Lane x), lane_functions::normal_cdf_of(x.value))
  HEDDLE_LANE(expm1(Lane x), lane_functions::expm1_of(x.value))
  HEDDLE_LANE(log1p(Lane x), lane_functions::Vector_log1p()(x.value))
  HEDDLE_LANE(maximum(Lane a, Lane b), a.value < b.value ? b.value : a.value)
  HEDDLE_LANE(minimum(Lane a, Lane b), a.value > b.value ? b.value : a.value)
  HEDDLE_LANE(where(Condition condition, Lane a, Lane b), condition.holds ? a.value : b.value)
  HEDDLE_LANE(zero(Lane), 0)
#undef HEDDLE_LANE
#define HEDDLE_LANE(comparison)                                                 \
  [[gnu::always_inline]] friend Condition operator comparison(Lane a, Lane b) { \
    return {a.value comparison b.value};                                        \
  }
  HEDDLE_LANE(<)
  HEDDLE_LANE(<=)
  HEDDLE_LANE(>)
  HEDDLE_LANE(>=)
#undef HEDDLE_LANE

 private:
  struct Exact {};
  [[gnu::always_inline]] Lane(T number, Exact) : value(number) {}
};

}  // namespace heddle::cpu_kernels
