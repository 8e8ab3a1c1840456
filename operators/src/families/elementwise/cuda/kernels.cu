// Elementwise kernels for GPUs. The exponential, the logarithm, tanh and sigmoid are those of CUDA's library, whose last digits
// may differ from the CPU's; all others give the CPU's bits.
#include <cmath>

#include "families/elementwise/arithmetic_functors.h"
#include "families/elementwise/comparison_functors.h"
#include "families/elementwise/cuda/kernels.h"
#include "families/elementwise/cuda/map_by_dtype.h"
#include "families/elementwise/unary_functors.h"

namespace heddle::cuda_kernels {
namespace {

using namespace functors;

struct Less {
  template <class T> HEDDLE_FUNCTOR bool operator()(T a, T b) const { return a < b; }
};
struct LessEqual {
  template <class T> HEDDLE_FUNCTOR bool operator()(T a, T b) const { return a <= b; }
};
struct Greater {
  template <class T> HEDDLE_FUNCTOR bool operator()(T a, T b) const { return a > b; }
};
struct Equal {
  template <class T> HEDDLE_FUNCTOR bool operator()(T a, T b) const { return a == b; }
};
struct NotEqual {
  template <class T> HEDDLE_FUNCTOR bool operator()(T a, T b) const { return a != b; }
};
struct LogicalNot {
  template <class T> HEDDLE_FUNCTOR bool operator()(T x) const { return x == T{0}; }
};
struct Exp {
  template <class T> HEDDLE_FUNCTOR T operator()(T x) const { return std::exp(x); }
};
struct Log {
  template <class T> HEDDLE_FUNCTOR T operator()(T x) const { return std::log(x); }
};
struct Tanh {
  template <class T> HEDDLE_FUNCTOR T operator()(T x) const { return std::tanh(x); }
};
// The exponential of a negative number, since that of a positive one overflows where the result is still subnormal.
struct Sigmoid {
  template <class T> HEDDLE_FUNCTOR T operator()(T x) const {
    const T e = std::exp(-std::fabs(x));
    return (x < T{0} ? e : T{1}) / (T{1} + e);
  }
};

// y is a where the condition is true, else b.
template <class Bits> struct Choose {
  on_gpu::Layout<4> layout;
  const unsigned char* condition;
  const Bits *a, *b;  // null: the number
  Bits numbers[2];
  Bits* out;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < layout.count; i += thread.global_size()) {
      long long at[4];
      layout.locate(i, at);
      const bool first = condition[at[0]] != 0;
      const Bits* const from = first ? a : b;
      out[at[3]] = from ? from[at[first ? 1 : 2]] : numbers[first ? 0 : 1];
    }
  }
};

template <class Bits> const char* choose(void* stream, const Elements& elements) {
  Choose<Bits> kernel{};
  kernel.layout = layout_of<3>(elements);
  kernel.condition = static_cast<const unsigned char*>(elements.in[0].data);
  kernel.a = static_cast<const Bits*>(elements.in[1].data);
  kernel.b = static_cast<const Bits*>(elements.in[2].data);
  memcpy(&kernel.numbers[0], elements.in[1].number, sizeof(Bits));
  memcpy(&kernel.numbers[1], elements.in[2].number, sizeof(Bits));
  kernel.out = static_cast<Bits*>(elements.out);
  return on_gpu::launch_over(static_cast<cudaStream_t>(stream), kernel.layout.count, kernel);
}

}  // namespace

const Entry kUnary[kUnaryCount] = {
    {"negative", map_words<Negative, void, 1>},  {"abs", map_numbers<Abs, void, 1>},
    {"square", map_words<Square, void, 1>},      {"relu", map_numbers<Relu, void, 1>},
    {"exp", map_floating<Exp, void, 1>},         {"log", map_floating<Log, void, 1>},
    {"sqrt", map_floating<Sqrt, void, 1>},       {"tanh", map_floating<Tanh, void, 1>},
    {"sigmoid", map_floating<Sigmoid, void, 1>}, {"logical_not", map_words<LogicalNot, bool, 1>}};

const Entry kBinary[kBinaryCount] = {{"add", map_words<Add, void, 2>},
                                     {"subtract", map_words<Subtract, void, 2>},
                                     {"multiply", map_words<Multiply, void, 2>},
                                     {"divide", map_floating<Divide, void, 2>},
                                     {"maximum", map_numbers<Maximum, void, 2>},
                                     {"minimum", map_numbers<Minimum, void, 2>},
                                     {"larger_share", map_floating<Share<Greater>, void, 2>},
                                     {"smaller_share", map_floating<Share<Less>, void, 2>},
                                     {"half_difference", map_floating<HalfDifference, void, 2>},
                                     {"equal", map_words<Equal, bool, 2>},
                                     {"not_equal", map_words<NotEqual, bool, 2>},
                                     {"less", map_numbers<Less, bool, 2>},
                                     {"less_equal", map_numbers<LessEqual, bool, 2>},
                                     {"same", map_words<Same, bool, 2>},
                                     {"logical_and", map_words<LogicalAnd, bool, 2>},
                                     {"logical_or", map_words<LogicalOr, bool, 2>},
                                     {"logical_xor", map_words<LogicalXor, bool, 2>},
                                     {"abs_gradient", map_floating<AbsGradient, void, 2>},
                                     {"square_gradient", map_floating<SquareGradient, void, 2>},
                                     {"relu_gradient", map_floating<ReluGradient, void, 2>},
                                     {"sqrt_gradient", map_floating<SqrtGradient, void, 2>},
                                     {"tanh_gradient", map_floating<TanhGradient, void, 2>},
                                     {"sigmoid_gradient", map_floating<SigmoidGradient, void, 2>}};

const char* launch_where(void* stream, const Elements& elements) {
  switch (on_gpu::size_of(Type{elements.result})) {
    case 8:
      return choose<std::uint64_t>(stream, elements);
    case 4:
      return choose<std::uint32_t>(stream, elements);
    case 2:
      return choose<std::uint16_t>(stream, elements);
    default:
      return choose<std::uint8_t>(stream, elements);
  }
}

}  // namespace heddle::cuda_kernels
