// Lane: one number of a kernel, with the operators and functions that arrays have, so that one expression is both a
// kernel and a composition of operators. For kernels of the CPU and of GPUs: C++17, as nvcc compiles it.
#pragma once

#include <cmath>

#include "core/functor.h"

#ifdef __CUDACC__
#define HEDDLE_LANE_FUNCTION HEDDLE_FUNCTOR
#else
#define HEDDLE_LANE_FUNCTION [[gnu::always_inline]]
#endif

namespace heddle::functors {

// T is float or double; the numbers of an expression are rounded to T. Math has the device's exponential and others. NaN passes
// through maximum and minimum.
template <class T, class Math> struct Lane {
  struct Condition {
    bool holds;
  };

  T value;
  HEDDLE_LANE_FUNCTION Lane(double number) : value(static_cast<T>(number)) {}
  HEDDLE_LANE_FUNCTION static Lane of(T number) { return Lane(number, Exact()); }

#define HEDDLE_LANE(declaration, result) \
  HEDDLE_LANE_FUNCTION friend Lane declaration { return Lane::of(result); }
  HEDDLE_LANE(operator-(Lane a), -a.value)
  HEDDLE_LANE(operator+(Lane a, Lane b), a.value + b.value)
  HEDDLE_LANE(operator-(Lane a, Lane b), a.value - b.value)
  HEDDLE_LANE(operator*(Lane a, Lane b), a.value* b.value)
  HEDDLE_LANE(operator/(Lane a, Lane b), a.value / b.value)
  HEDDLE_LANE(abs(Lane x), std::fabs(x.value))
  HEDDLE_LANE(square(Lane x), x.value* x.value)
  HEDDLE_LANE(exp(Lane x), Math::exp(x.value))
  HEDDLE_LANE(log(Lane x), Math::log(x.value))
  HEDDLE_LANE(sqrt(Lane x), std::sqrt(x.value))
  HEDDLE_LANE(tanh(Lane x), Math::tanh(x.value))
  HEDDLE_LANE(sigmoid(Lane x), Math::sigmoid(x.value))
  HEDDLE_LANE(normal_cdf(Lane x), Math::normal_cdf(x.value))
  HEDDLE_LANE(expm1(Lane x), Math::expm1(x.value))
  HEDDLE_LANE(log1p(Lane x), Math::log1p(x.value))
  HEDDLE_LANE(maximum(Lane a, Lane b), a.value < b.value ? b.value : a.value)
  HEDDLE_LANE(minimum(Lane a, Lane b), a.value > b.value ? b.value : a.value)
  HEDDLE_LANE(where(Condition condition, Lane a, Lane b), condition.holds ? a.value : b.value)
  HEDDLE_LANE(zero(Lane), 0)
#undef HEDDLE_LANE
#define HEDDLE_LANE(comparison)                                               \
  HEDDLE_LANE_FUNCTION friend Condition operator comparison(Lane a, Lane b) { \
    return {a.value comparison b.value};                                      \
  }
  HEDDLE_LANE(<)
  HEDDLE_LANE(<=)
  HEDDLE_LANE(>)
  HEDDLE_LANE(>=)
#undef HEDDLE_LANE

 private:
  struct Exact {};
  HEDDLE_LANE_FUNCTION Lane(T number, Exact) : value(number) {}
};

// Function objects of the activations' rows (heddle/activations/activation_rows.h): the value; the gradient of x from that of the result, g. With a
// number also the derivative.
#define HEDDLE_ACTIVATION_OBJECTS(name, layer, formula, derivative, numpy, text) \
  template <class Math> struct Value_##name {                                    \
    template <class T> HEDDLE_FUNCTOR T operator()(T number) const {             \
      const auto x = functors::Lane<T, Math>::of(number);                        \
      return functors::Lane<T, Math>(formula).value;                             \
    }                                                                            \
  };                                                                             \
  template <class Math> struct Gradient_##name {                                 \
    template <class T> HEDDLE_FUNCTOR T operator()(T g, T number) const {        \
      const auto x = functors::Lane<T, Math>::of(number);                        \
      return g * functors::Lane<T, Math>(derivative).value;                      \
    }                                                                            \
  };
#define HEDDLE_ACTIVATION_OBJECTS_WITH_NUMBER(name, layer, parameter, otherwise, formula, derivative, numpy, \
                                              text)                                                          \
  template <class Math> struct Value_##name {                                                                \
    template <class T> HEDDLE_FUNCTOR T operator()(T number, T second) const {                               \
      const auto x = functors::Lane<T, Math>::of(number), parameter = functors::Lane<T, Math>::of(second);   \
      return functors::Lane<T, Math>(formula).value;                                                         \
    }                                                                                                        \
  };                                                                                                         \
  template <class Math> struct Derivative_##name {                                                           \
    template <class T> HEDDLE_FUNCTOR T operator()(T number, T second) const {                               \
      const auto x = functors::Lane<T, Math>::of(number);                                                    \
      [[maybe_unused]] const auto parameter = functors::Lane<T, Math>::of(second);                           \
      return functors::Lane<T, Math>(derivative).value;                                                      \
    }                                                                                                        \
  };

}  // namespace heddle::functors
