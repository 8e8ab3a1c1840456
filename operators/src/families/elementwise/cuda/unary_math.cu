// Kernels of powers, logarithms, trigonometry and the gamma function. On GPUs the functions are those of CUDA's library; rsqrt and
// reciprocal give the CPU's bits.
#include <cmath>

#include "families/elementwise/cuda/kernels.h"
#include "families/elementwise/cuda/map_by_dtype.h"
#include "families/elementwise/special_functors.h"

namespace heddle::cuda_kernels {
namespace {

using namespace functors;

#define HEDDLE_FUNCTION(name)                                                          \
  struct Of_##name {                                                                   \
    template <class T> HEDDLE_FUNCTOR T operator()(T x) const { return std::name(x); } \
  };
HEDDLE_FUNCTION(exp2)
HEDDLE_FUNCTION(expm1)
HEDDLE_FUNCTION(log1p)
HEDDLE_FUNCTION(log2)
HEDDLE_FUNCTION(log10)
HEDDLE_FUNCTION(cbrt)
HEDDLE_FUNCTION(sin)
HEDDLE_FUNCTION(cos)
HEDDLE_FUNCTION(tan)
HEDDLE_FUNCTION(asin)
HEDDLE_FUNCTION(acos)
HEDDLE_FUNCTION(atan)
HEDDLE_FUNCTION(sinh)
HEDDLE_FUNCTION(cosh)
HEDDLE_FUNCTION(asinh)
HEDDLE_FUNCTION(acosh)
HEDDLE_FUNCTION(atanh)
HEDDLE_FUNCTION(erf)
HEDDLE_FUNCTION(erfc)
#undef HEDDLE_FUNCTION

}  // namespace

#define HEDDLE_ENTRY(name) \
  { #name, map_floating < Of_##name, void, 1> }
const Entry kUnaryMath[kUnaryMathCount] = {HEDDLE_ENTRY(exp2),
                                           HEDDLE_ENTRY(expm1),
                                           HEDDLE_ENTRY(log1p),
                                           HEDDLE_ENTRY(log2),
                                           HEDDLE_ENTRY(log10),
                                           HEDDLE_ENTRY(cbrt),
                                           HEDDLE_ENTRY(sin),
                                           HEDDLE_ENTRY(cos),
                                           HEDDLE_ENTRY(tan),
                                           HEDDLE_ENTRY(asin),
                                           HEDDLE_ENTRY(acos),
                                           HEDDLE_ENTRY(atan),
                                           HEDDLE_ENTRY(sinh),
                                           HEDDLE_ENTRY(cosh),
                                           HEDDLE_ENTRY(asinh),
                                           HEDDLE_ENTRY(acosh),
                                           HEDDLE_ENTRY(atanh),
                                           HEDDLE_ENTRY(erf),
                                           HEDDLE_ENTRY(erfc),
                                           {"rsqrt", map_floating<Rsqrt, void, 1>},
                                           {"reciprocal", map_floating<Reciprocal, void, 1>},
                                           {"lgamma", map_floating<Lgamma, void, 1>},
                                           {"digamma", map_floating<Digamma, void, 1>},
                                           {"trigamma", map_floating<Trigamma, void, 1>},
                                           {"tetragamma", map_floating<Tetragamma, void, 1>}};
#undef HEDDLE_ENTRY

}  // namespace heddle::cuda_kernels
