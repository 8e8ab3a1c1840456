// Powers, logarithms, trigonometry and the gamma function: a row for each operator.
#include <numbers>

#include <heddle/elementwise_math.h>

#include "autograd/record.h"
#include "families/elementwise/cpu/vector_library.h"
#include "families/elementwise/rows.h"
#include "families/elementwise/special_functors.h"

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

using namespace functors;

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

constexpr UnaryGradient kTrigammaGradient = HEDDLE_GRADIENT(x, g* tetragamma(x));
NDArray trigamma(const NDArray& x) { return unary("trigamma", Family::floating, x, kTrigammaGradient); }

}  // namespace

// clang-format off
#define HEDDLE_UNARY_MATH(X) \
  X(exp2, floating, unary_block_kernel<Vector_exp2>, HEDDLE_GRADIENT(y, g * y * ln2), \
    "np.exp2(x)", -4, 4, "2 to the power of x.") \
  X(expm1, floating, unary_block_kernel<Vector_expm1>, HEDDLE_GRADIENT(y, g * (y + 1)), \
    "np.expm1(x)", -4, 4, "exp(x) - 1, exact near 0.") \
  X(log1p, floating, unary_block_kernel<Vector_log1p>, HEDDLE_GRADIENT(x, g / (x + 1)), \
    "np.log1p(x)", -0.9, 9, "log(1 + x), exact near 0.") \
  X(log2, floating, unary_block_kernel<Vector_log2>, HEDDLE_GRADIENT(x, g / (x * ln2)), \
    "np.log2(x)", 0.01, 9, "The logarithm to the base 2.") \
  X(log10, floating, unary_block_kernel<Vector_log10>, HEDDLE_GRADIENT(x, g / (x * ln10)), \
    "np.log10(x)", 0.01, 9, "The logarithm to the base 10.") \
  X(rsqrt, floating, unary_floating_kernel<Rsqrt>, HEDDLE_GRADIENT(y, g * y * y * y * -0.5), \
    "1 / np.sqrt(x)", 0.01, 9, "1 / sqrt(x).") \
  X(cbrt, floating, unary_block_kernel<Vector_cbrt>, HEDDLE_GRADIENT(y, g / y / y / 3), \
    "np.cbrt(x)", -9, 9, "The cube root.") \
  X(reciprocal, floating, unary_floating_kernel<Reciprocal>, HEDDLE_GRADIENT(y, -(g * y * y)), \
    "1 / x", 0.1, 9, "1 / x.") \
  X(sin, floating, unary_block_kernel<Vector_sin>, HEDDLE_GRADIENT(x, g * cos(x)), \
    "np.sin(x)", -20, 20, "The sine.") \
  X(cos, floating, unary_block_kernel<Vector_cos>, HEDDLE_GRADIENT(x, -(g * sin(x))), \
    "np.cos(x)", -20, 20, "The cosine.") \
  X(tan, floating, unary_block_kernel<Vector_tan>, HEDDLE_GRADIENT(y, g * (square(y) + 1)), \
    "np.tan(x)", -1.5, 1.5, "The tangent.") \
  X(asin, floating, unary_block_kernel<Vector_asin>, HEDDLE_GRADIENT(x, g * rsqrt(1 - square(x))), \
    "np.arcsin(x)", -1, 1, "The inverse sine.") \
  X(acos, floating, unary_block_kernel<Vector_acos>, HEDDLE_GRADIENT(x, -(g * rsqrt(1 - square(x)))), \
    "np.arccos(x)", -1, 1, "The inverse cosine.") \
  X(atan, floating, unary_block_kernel<Vector_atan>, HEDDLE_GRADIENT(x, g / (square(x) + 1)), \
    "np.arctan(x)", -9, 9, "The inverse tangent.") \
  X(sinh, floating, unary_block_kernel<Vector_sinh>, HEDDLE_GRADIENT(x, g * cosh(x)), \
    "np.sinh(x)", -4, 4, "The hyperbolic sine.") \
  X(cosh, floating, unary_block_kernel<Vector_cosh>, HEDDLE_GRADIENT(x, g * sinh(x)), \
    "np.cosh(x)", -4, 4, "The hyperbolic cosine.") \
  X(asinh, floating, unary_block_kernel<Vector_asinh>, HEDDLE_GRADIENT(x, g / hypot(x, 1)), \
    "np.arcsinh(x)", -9, 9, "The inverse hyperbolic sine.") \
  X(acosh, floating, unary_block_kernel<Vector_acosh>, HEDDLE_GRADIENT(x, g * (rsqrt(x - 1) * rsqrt(x + 1))), \
    "np.arccosh(x)", 1, 9, "The inverse hyperbolic cosine.") \
  X(atanh, floating, unary_block_kernel<Vector_atanh>, HEDDLE_GRADIENT(x, g / (1 - square(x))), \
    "np.arctanh(x)", -0.9, 0.9, "The inverse hyperbolic tangent.") \
  X(erf, floating, unary_block_kernel<Vector_erf>, HEDDLE_GRADIENT(x, g * exp(-square(x)) * (2 * inv_sqrtpi)), \
    "np.vectorize(math.erf, otypes=[float])(x)", -3, 3, "The error function.") \
  X(erfc, floating, unary_block_kernel<Vector_erfc>, HEDDLE_GRADIENT(x, g * exp(-square(x)) * (-2 * inv_sqrtpi)), \
    "np.vectorize(math.erfc, otypes=[float])(x)", -3, 3, "1 - erf(x), exact for large x.") \
  X(lgamma, floating, unary_block_kernel<Lgamma>, HEDDLE_GRADIENT(x, g * digamma(x)), \
    "np.vectorize(math.lgamma, otypes=[float])(x)", 0.1, 9, "The logarithm of the absolute value of the gamma function.") \
  X(digamma, floating, unary_block_kernel<Digamma>, HEDDLE_GRADIENT(x, g * trigamma(x)), \
    "", 0.1, 9, "The derivative of lgamma; NaN at its poles, -inf at 0.")
// clang-format on

HEDDLE_UNARY_MATH(HEDDLE_UNARY_FUNCTION)

HEDDLE_OPERATORS(unary_math) {
  table.family("Elementwise mathematics");
  HEDDLE_UNARY_MATH(HEDDLE_UNARY_ENTRY)
}

namespace cpu_kernels {

HEDDLE_CPU_KERNELS(unary_math) {
  HEDDLE_UNARY_MATH(HEDDLE_UNARY_KERNEL)
  table.add<UnaryKernel>("trigamma", DeviceKind::cpu, unary_block_kernel<Trigamma>);
  table.add<UnaryKernel>("tetragamma", DeviceKind::cpu, unary_block_kernel<Tetragamma>);
}

}  // namespace cpu_kernels
}  // namespace heddle
