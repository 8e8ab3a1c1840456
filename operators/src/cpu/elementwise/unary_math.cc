// Powers, logarithms, trigonometry and the gamma function.
#include <cmath>
#include <limits>
#include <numbers>

#include "cpu/elementwise/vector_library.h"
#include "cpu/register.h"
#include "kernels/elementwise_kernels.h"

namespace heddle::cpu_kernels {

namespace {

HEDDLE_VECTOR_FUNCTION(exp2)
HEDDLE_VECTOR_FUNCTION(expm1)
HEDDLE_VECTOR_FUNCTION(log1p)
HEDDLE_VECTOR_FUNCTION(log2)
HEDDLE_VECTOR_FUNCTION(log10)
HEDDLE_VECTOR_FUNCTION(cbrt)
HEDDLE_VECTOR_FUNCTION(sin)
HEDDLE_VECTOR_FUNCTION(cos)
HEDDLE_VECTOR_FUNCTION(tan)
HEDDLE_VECTOR_FUNCTION(asin)
HEDDLE_VECTOR_FUNCTION(acos)
HEDDLE_VECTOR_FUNCTION(atan)
HEDDLE_VECTOR_FUNCTION(sinh)
HEDDLE_VECTOR_FUNCTION(cosh)
HEDDLE_VECTOR_FUNCTION(asinh)
HEDDLE_VECTOR_FUNCTION(acosh)
HEDDLE_VECTOR_FUNCTION(atanh)
HEDDLE_VECTOR_FUNCTION(erf)
HEDDLE_VECTOR_FUNCTION(erfc)

struct Rsqrt {
  template <class T> T operator()(T x) const { return T{1} / std::sqrt(x); }
};
struct Reciprocal {
  template <class T> T operator()(T x) const { return T{1} / x; }
};

// std::lgamma writes a global variable.
struct Lgamma {
  template <class T> T operator()(T x) const {
    int sign;
    return static_cast<T>(::lgamma_r(static_cast<double>(x), &sign));
  }
};

// The distance from the nearest integer, exactly: x - floor(x) loses the digits of a small negative x.
double from_nearest(double x) { return x - std::nearbyint(x); }

// The asymptotic series of Abramowitz and Stegun, 6.3.18, from 10 on; below, digamma(x) = digamma(x + 1) - 1 / x. Left of
// 1/2 the reflection formula, 6.3.7.
double digamma(double x) {
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  double reflected = 0;
  if (x < 0.5) {
    if (x == std::floor(x)) return std::numeric_limits<double>::quiet_NaN();
    reflected = -std::numbers::pi / std::tan(std::numbers::pi * from_nearest(x));
    x = 1 - x;
  }
  double below = 0;
  for (; x < 10; ++x) below += 1 / x;
  if (std::isinf(x)) return x;
  const double z = 1 / (x * x);
  const double series =
      z *
      (1.0 / 12 -
       z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
  return reflected - below + std::log(x) - 0.5 / x - series;
}

// Its derivative: 6.4.12, 6.4.6 and 6.4.7 there.
double trigamma(double x) {
  if (x < 0.5) {
    if (x == std::floor(x)) return std::numeric_limits<double>::infinity();
    const double root = std::numbers::pi / std::sin(std::numbers::pi * from_nearest(x));
    return root * root - trigamma(1 - x);
  }
  double below = 0;
  for (; x < 10; ++x) below += 1 / (x * x);
  const double z = 1 / (x * x);
  const double series =
      z *
      (1.0 / 6 -
       z * (1.0 / 30 - z * (1.0 / 42 - z * (1.0 / 30 - z * (5.0 / 66 - z * (691.0 / 2730 - z * 7.0 / 6))))));
  return below + 1 / x + z / 2 + series / x;
}

// The derivative of that: 6.4.11 and the derivative of 6.4.7 there.
double tetragamma(double x) {
  if (x < 0.5) {
    if (x == std::floor(x)) return std::numeric_limits<double>::quiet_NaN();
    const double angle = std::numbers::pi * from_nearest(x), root = std::numbers::pi / std::sin(angle);
    return tetragamma(1 - x) - 2 * std::cos(angle) * root * root * root;
  }
  double below = 0;
  for (; x < 12; ++x) below -= 2 / (x * x * x);
  const double z = 1 / (x * x);
  const double series =
      z * (0.5 - z * (1.0 / 6 - z * (1.0 / 6 - z * (0.3 - z * (5.0 / 6 - z * (691.0 / 210 - z * 17.5))))));
  return below - z - z / x - z * series;
}

struct Digamma {
  template <class T> T operator()(T x) const { return static_cast<T>(digamma(static_cast<double>(x))); }
};
struct Trigamma {
  template <class T> T operator()(T x) const { return static_cast<T>(trigamma(static_cast<double>(x))); }
};
struct Tetragamma {
  template <class T> T operator()(T x) const { return static_cast<T>(tetragamma(static_cast<double>(x))); }
};

}  // namespace

void register_unary_math(KernelTable& table) {
  const auto add = [&](const char* name, UnaryKernel* kernel) {
    table.add<UnaryKernel>(name, DeviceKind::cpu, kernel);
  };
  add("exp2", unary_block_kernel<Vector_exp2>);
  add("expm1", unary_block_kernel<Vector_expm1>);
  add("log1p", unary_block_kernel<Vector_log1p>);
  add("log2", unary_block_kernel<Vector_log2>);
  add("log10", unary_block_kernel<Vector_log10>);
  add("rsqrt", unary_floating_kernel<Rsqrt>);
  add("cbrt", unary_block_kernel<Vector_cbrt>);
  add("reciprocal", unary_floating_kernel<Reciprocal>);
  add("sin", unary_block_kernel<Vector_sin>);
  add("cos", unary_block_kernel<Vector_cos>);
  add("tan", unary_block_kernel<Vector_tan>);
  add("asin", unary_block_kernel<Vector_asin>);
  add("acos", unary_block_kernel<Vector_acos>);
  add("atan", unary_block_kernel<Vector_atan>);
  add("sinh", unary_block_kernel<Vector_sinh>);
  add("cosh", unary_block_kernel<Vector_cosh>);
  add("asinh", unary_block_kernel<Vector_asinh>);
  add("acosh", unary_block_kernel<Vector_acosh>);
  add("atanh", unary_block_kernel<Vector_atanh>);
  add("erf", unary_block_kernel<Vector_erf>);
  add("erfc", unary_block_kernel<Vector_erfc>);
  add("lgamma", unary_block_kernel<Lgamma>);
  add("digamma", unary_block_kernel<Digamma>);
  add("trigamma", unary_block_kernel<Trigamma>);
  add("tetragamma", unary_block_kernel<Tetragamma>);
}

}  // namespace heddle::cpu_kernels
