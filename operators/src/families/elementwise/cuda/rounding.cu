// Kernels of rounding, signs, classes of numbers and bits of one operand. Their results are the CPU's bits.
#include "families/elementwise/cuda/kernels.h"
#include "families/elementwise/cuda/map_by_dtype.h"
#include "families/elementwise/rounding_functors.h"

namespace heddle::cuda_kernels {
namespace {

using namespace functors;

// Integers are rounded already.
template <class F> const char* map_rounding(void* stream, const Elements& elements) {
  if (is_floating(Type{elements.dtype})) return map_floating<F, void, 1>(stream, elements);
  return map_words<Unchanged, void, 1>(stream, elements);
}

template <bool value> struct Constant {
  template <class T> HEDDLE_FUNCTOR bool operator()(T) const { return value; }
};
// `otherwise` is the result for integers and bools, whatever their bytes.
template <class F, bool otherwise> const char* map_class(void* stream, const Elements& elements) {
  if (is_floating(Type{elements.dtype})) return map_floating<F, bool, 1>(stream, elements);
  return map_as<Constant<otherwise>, std::uint8_t, bool, 1>(stream, elements);
}

}  // namespace

const Entry kRounding[kRoundingCount] = {{"floor", map_rounding<Floor>},
                                         {"ceil", map_rounding<Ceil>},
                                         {"round", map_rounding<Round>},
                                         {"trunc", map_rounding<Trunc>},
                                         {"sign", map_numbers<Sign, void, 1>},
                                         {"isnan", map_class<IsNan, false>},
                                         {"isinf", map_class<IsInf, false>},
                                         {"isfinite", map_class<IsFinite, true>},
                                         {"signbit", map_numbers<SignBit, bool, 1>},
                                         {"bitwise_invert", map_bits<Invert, 1>}};

}  // namespace heddle::cuda_kernels
