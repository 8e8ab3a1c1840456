// Kernels of powers, remainders, bits and functions of two numbers. On GPUs pow, atan2, hypot and the logarithm of logaddexp are those
// of CUDA's library; all others, and powers of integers, give the CPU's bits.
#include <cmath>

#include "cuda/report.h"
#include "families/elementwise/arithmetic_functors.h"
#include "families/elementwise/binary_functors.h"
#include "families/elementwise/cuda/kernels.h"
#include "families/elementwise/cuda/map_by_dtype.h"

namespace heddle::cuda_kernels {
namespace {

using namespace functors;

template <class F> const char* map_quotient(void* stream, const Elements& elements) {
  if (is_floating(Type{elements.dtype})) return map_floating<F, void, 2>(stream, elements);
  return map_integers<F, 2>(stream, elements);
}

struct Atan2 {
  template <class T> HEDDLE_FUNCTOR T operator()(T y, T x) const { return std::atan2(y, x); }
};
struct Hypot {
  template <class T> HEDDLE_FUNCTOR T operator()(T a, T b) const { return std::hypot(a, b); }
};
// For two equal infinities, whose difference is NaN, the result is a itself.
struct Logaddexp {
  template <class T> HEDDLE_FUNCTOR T operator()(T a, T b) const {
    if (a == b) return a + static_cast<T>(0.693147180559945309417);
    const T larger = a > b || a != a ? a : b, smaller = a > b || a != a ? b : a;
    return larger + std::log1p(std::exp(smaller - larger));
  }
};

// nextafter for a half type, whose values are given as f32.
template <class Half> struct NextHalf {
  HEDDLE_DEVICE float operator()(float a, float b) const {
    if (a != a || b != b) return a + b;
    if (a == b) return b;
    Half half = on_gpu::narrow(a, Half{});
    if (a == 0)
      half.bits = b < 0 ? 0x8001 : 1;
    else
      half.bits = static_cast<std::uint16_t>((a < b) == (a > 0) ? half.bits + 1 : half.bits - 1);
    return on_gpu::widen(half);
  }
};
const char* map_nextafter(void* stream, const Elements& elements) {
  const Type type{elements.dtype};
  if (type == Type::f16) return map_as<NextHalf<on_gpu::F16>, float, void, 2>(stream, elements);
  if (type == Type::bf16) return map_as<NextHalf<on_gpu::BF16>, float, void, 2>(stream, elements);
  return map_floating<Nextafter, void, 2>(stream, elements);
}

struct CheckExponents {
  on_gpu::Layout<1> layout;
  const void* exponents;
  Type type;
  FaultSlot* slot;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < layout.count; i += thread.global_size()) {
      long long at[1];
      layout.locate(i, at);
      const long long exponent = on_gpu::load<long long>(exponents, at[0], type);
      if (exponent >= 0) continue;
      report(thread, slot, i, static_cast<unsigned long long>(exponent));
      return;
    }
  }
};

}  // namespace

const Entry kBinaryMath[kBinaryMathCount] = {{"power", map_numbers<Power, void, 2>},
                                             {"floor_divide", map_quotient<FloorDivide>},
                                             {"remainder", map_quotient<Remainder>},
                                             {"fmod", map_quotient<Fmod>},
                                             {"atan2", map_floating<Atan2, void, 2>},
                                             {"hypot", map_floating<Hypot, void, 2>},
                                             {"logaddexp", map_floating<Logaddexp, void, 2>},
                                             {"copysign", map_floating<Copysign, void, 2>},
                                             {"nextafter", map_nextafter},
                                             {"bitwise_and", map_bits<And, 2>},
                                             {"bitwise_or", map_bits<Or, 2>},
                                             {"bitwise_xor", map_bits<Xor, 2>},
                                             {"bitwise_left_shift", map_integers<LeftShift, 2>},
                                             {"bitwise_right_shift", map_integers<RightShift, 2>}};

const char* launch_exponent_check(void* stream, const Elements& elements, FaultSlot* slot) {
  CheckExponents kernel{};
  kernel.layout = on_gpu::make_layout<1>(elements.dims, elements.sizes, {elements.in[0].strides});
  kernel.exponents = elements.in[0].data;
  kernel.type = Type{elements.dtype};
  kernel.slot = slot;
  return on_gpu::launch_over(static_cast<cudaStream_t>(stream), kernel.layout.count, kernel);
}

}  // namespace heddle::cuda_kernels
