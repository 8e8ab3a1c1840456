// Powers, logarithms, trigonometry, the gamma function and classes of numbers: one row for each operator.
#include <cmath>
#include <limits>
#include <numbers>

#include <heddle/elementwise_math.h>

#include "autograd/record.h"
#include "core/kernel_table.h"
#include "core/operator_table.h"
#include "families/elementwise/cpu/vector_library.h"
#include "families/elementwise/elementwise_gradient.h"
#include "families/elementwise/kernels.h"

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

// Not std::lgamma, which writes a global variable.
struct Lgamma {
  template <class T> T operator()(T x) const {
    int sign;
    return static_cast<T>(::lgamma_r(static_cast<double>(x), &sign));
  }
};

// The distance from the nearest integer, exactly: x - floor(x) loses the digits of a small negative x.
double from_nearest(double x) { return x - std::nearbyint(x); }

// By the asymptotic series of Abramowitz and Stegun, 6.3.18, from 10 on; below, by
// digamma(x) = digamma(x + 1) - 1 / x; left of 1/2, by the reflection formula, 6.3.7.
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

// The derivative of digamma: Abramowitz and Stegun, 6.4.12, 6.4.6 and 6.4.7.
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

// The derivative of trigamma: Abramowitz and Stegun, 6.4.11 and the derivative of 6.4.7.
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
}  // namespace heddle::cpu_kernels

namespace heddle {

using namespace operators_detail;

namespace {

using std::numbers::inv_sqrtpi, std::numbers::ln10, std::numbers::ln2;

NDArray tetragamma(const NDArray& x) {
  if (recording({&x})) refuse_second_gradient("digamma");
  return push_unary("tetragamma", x, x.dtype(), x.dtype());
}

NDArray trigamma(const NDArray& x) {
  return unary("trigamma", Family::floating, x,
               {UnaryGradient::input, nullptr,
                [](const NDArray& g, const NDArray& saved) { return g * tetragamma(saved); }});
}

}  // namespace

// Operators in floating point. A row: name; CPU kernel; what the gradient saves, x or the result y; the
// gradient, from the result's gradient g and the saved value; the same in NumPy, and the range from which
// tests draw x; documentation.
// clang-format off
#define HEDDLE_FLOATING(X) \
  X(exp2, unary_block_kernel<Vector_exp2>, output, y, g * y * ln2, "np.exp2(x)", -4, 4, "2 to the power of x.") \
  X(expm1, unary_block_kernel<Vector_expm1>, output, y, g * (y + 1), "np.expm1(x)", -4, 4, "exp(x) - 1, exact near 0.") \
  X(log1p, unary_block_kernel<Vector_log1p>, input, x, g / (x + 1), "np.log1p(x)", -0.9, 9, "log(1 + x), exact near 0.") \
  X(log2, unary_block_kernel<Vector_log2>, input, x, g / (x * ln2), "np.log2(x)", 0.01, 9, "The logarithm to the base 2.") \
  X(log10, unary_block_kernel<Vector_log10>, input, x, g / (x * ln10), "np.log10(x)", 0.01, 9, "The logarithm to the base 10.") \
  X(rsqrt, unary_floating_kernel<Rsqrt>, output, y, g * y * y * y * -0.5, "1 / np.sqrt(x)", 0.01, 9, "1 / sqrt(x).") \
  X(cbrt, unary_block_kernel<Vector_cbrt>, output, y, g / y / y / 3, "np.cbrt(x)", -9, 9, "The cube root.") \
  X(reciprocal, unary_floating_kernel<Reciprocal>, output, y, -(g * y * y), "1 / x", 0.1, 9, "1 / x.") \
  X(sin, unary_block_kernel<Vector_sin>, input, x, g * cos(x), "np.sin(x)", -20, 20, "The sine.") \
  X(cos, unary_block_kernel<Vector_cos>, input, x, -(g * sin(x)), "np.cos(x)", -20, 20, "The cosine.") \
  X(tan, unary_block_kernel<Vector_tan>, output, y, g * (square(y) + 1), "np.tan(x)", -1.5, 1.5, "The tangent.") \
  X(asin, unary_block_kernel<Vector_asin>, input, x, g * rsqrt(1 - square(x)), "np.arcsin(x)", -1, 1, "The inverse sine.") \
  X(acos, unary_block_kernel<Vector_acos>, input, x, -(g * rsqrt(1 - square(x))), "np.arccos(x)", -1, 1, "The inverse cosine.") \
  X(atan, unary_block_kernel<Vector_atan>, input, x, g / (square(x) + 1), "np.arctan(x)", -9, 9, "The inverse tangent.") \
  X(sinh, unary_block_kernel<Vector_sinh>, input, x, g * cosh(x), "np.sinh(x)", -4, 4, "The hyperbolic sine.") \
  X(cosh, unary_block_kernel<Vector_cosh>, input, x, g * sinh(x), "np.cosh(x)", -4, 4, "The hyperbolic cosine.") \
  X(asinh, unary_block_kernel<Vector_asinh>, input, x, g / hypot(x, 1), "np.arcsinh(x)", -9, 9, "The inverse hyperbolic sine.") \
  X(acosh, unary_block_kernel<Vector_acosh>, input, x, g * (rsqrt(x - 1) * rsqrt(x + 1)), "np.arccosh(x)", 1, 9, "The inverse hyperbolic cosine.") \
  X(atanh, unary_block_kernel<Vector_atanh>, input, x, g / (1 - square(x)), "np.arctanh(x)", -0.9, 0.9, "The inverse hyperbolic tangent.") \
  X(erf, unary_block_kernel<Vector_erf>, input, x, g * exp(-square(x)) * (2 * inv_sqrtpi), "np.vectorize(math.erf, otypes=[float])(x)", -3, 3, "The error function.") \
  X(erfc, unary_block_kernel<Vector_erfc>, input, x, g * exp(-square(x)) * (-2 * inv_sqrtpi), "np.vectorize(math.erfc, otypes=[float])(x)", -3, 3, "1 - erf(x), exact for large x.") \
  X(lgamma, unary_block_kernel<Lgamma>, input, x, g * digamma(x), "np.vectorize(math.lgamma, otypes=[float])(x)", 0.1, 9, "The logarithm of the absolute value of the gamma function.") \
  X(digamma, unary_block_kernel<Digamma>, input, x, g * trigamma(x), "", 0.1, 9, "The derivative of lgamma; NaN at its poles, -inf at 0.")

// Operators that are constant between steps: name, NumPy, documentation.
#define HEDDLE_STEPS(X) \
  X(floor, "np.floor(x)", "The largest integer not above x.") \
  X(ceil, "np.ceil(x)", "The smallest integer not below x.") \
  X(round, "np.rint(x)", "The nearest integer; of a half, the even one.") \
  X(trunc, "np.trunc(x)", "x without its fraction.") \
  X(sign, "np.sign(x)", "-1, 0 or 1; NaN of NaN.")

// Operators that give bool: name, NumPy, documentation.
#define HEDDLE_CLASSES(X) \
  X(isnan, "np.isnan(x)", "Whether x is NaN.") \
  X(isinf, "np.isinf(x)", "Whether x is infinity or -infinity.") \
  X(isfinite, "np.isfinite(x)", "Whether x is neither NaN nor an infinity.") \
  X(signbit, "np.signbit(x)", "Whether the sign is -; that of -0.0 is.")
// clang-format on

#define HEDDLE_DEFINE(name, kernel, saves, saved, gradient, numpy, low, high, text)             \
  NDArray name(const NDArray& operand, Where where) {                                           \
    const CallSite site(where);                                                                 \
    return unary(#name, Family::floating, operand,                                              \
                 {UnaryGradient::saves, nullptr,                                                \
                  [](const NDArray& g, const NDArray& saved) -> NDArray { return gradient; }}); \
  }
HEDDLE_FLOATING(HEDDLE_DEFINE)
#undef HEDDLE_DEFINE

#define HEDDLE_DEFINE(name, numpy, text)                                                                   \
  NDArray name(const NDArray& x, Where where) {                                                            \
    const CallSite site(where);                                                                            \
    return unary(                                                                                          \
        #name, Family::no_bool, x,                                                                         \
        {UnaryGradient::nothing, nullptr, [](const NDArray& g, const NDArray&) { return no_change(g); }}); \
  }
HEDDLE_STEPS(HEDDLE_DEFINE)
#undef HEDDLE_DEFINE

#define HEDDLE_DEFINE(name, numpy, text)        \
  NDArray name(const NDArray& x, Where where) { \
    const CallSite site(where);                 \
    return classify(#name, x);                  \
  }
HEDDLE_CLASSES(HEDDLE_DEFINE)
#undef HEDDLE_DEFINE

HEDDLE_OPERATORS(unary_math) {
  table.family("Elementwise mathematics");
#define HEDDLE_REGISTER(name, kernel, saves, saved, gradient, numpy, low, high, text) \
  table.add(#name, name,                                                              \
            {text, {"x"}, "that of x; f64 for integers and bool", kDifferentiable, numpy, {low, high}});
  HEDDLE_FLOATING(HEDDLE_REGISTER)
#undef HEDDLE_REGISTER
#define HEDDLE_REGISTER(name, numpy, text) \
  table.add(#name, name, {text, {{"x", DTypes::no_bool}}, "that of x", kDifferentiable, numpy});
  HEDDLE_STEPS(HEDDLE_REGISTER)
#undef HEDDLE_REGISTER
#define HEDDLE_REGISTER(name, numpy, text) table.add(#name, name, {text, {"x"}, "bool", false, numpy});
  HEDDLE_CLASSES(HEDDLE_REGISTER)
#undef HEDDLE_REGISTER
}

namespace cpu_kernels {

HEDDLE_CPU_KERNELS(unary_math) {
#define HEDDLE_REGISTER(name, kernel, saves, saved, gradient, numpy, low, high, text) \
  table.add<UnaryKernel>(#name, DeviceKind::cpu, kernel);
  HEDDLE_FLOATING(HEDDLE_REGISTER)
#undef HEDDLE_REGISTER
  table.add<UnaryKernel>("trigamma", DeviceKind::cpu, unary_block_kernel<Trigamma>);
  table.add<UnaryKernel>("tetragamma", DeviceKind::cpu, unary_block_kernel<Tetragamma>);
}

}  // namespace cpu_kernels
}  // namespace heddle
