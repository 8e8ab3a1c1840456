// The functions of activations on the CPU: vector code for floats.
#pragma once

#include "cpu/vector_math.h"
#include "families/activation/lane_functors.h"
#include "families/elementwise/cpu/vector_library.h"

namespace heddle::cpu_kernels {

namespace lane_functions {
HEDDLE_VECTOR_FUNCTION(erfc)
HEDDLE_VECTOR_FUNCTION(expm1)
HEDDLE_VECTOR_FUNCTION(log1p)
}  // namespace lane_functions

struct FastMath {
  template <class T> [[gnu::always_inline]] static T exp(T x) { return fast_exp(x); }
  template <class T> [[gnu::always_inline]] static T log(T x) { return fast_log(x); }
  template <class T> [[gnu::always_inline]] static T tanh(T x) { return fast_tanh(x); }
  template <class T> [[gnu::always_inline]] static T sigmoid(T x) { return fast_sigmoid(x); }
  template <class T> [[gnu::always_inline]] static T log1p(T x) { return lane_functions::Vector_log1p()(x); }
  [[gnu::always_inline]] static float normal_cdf(float x) { return fast_normal_cdf(x); }
  [[gnu::always_inline]] static double normal_cdf(double x) {
    return lane_functions::Vector_erfc()(x * -0.70710678118654752) * 0.5;
  }
  [[gnu::always_inline]] static float expm1(float x) { return fast_expm1(x); }
  [[gnu::always_inline]] static double expm1(double x) { return lane_functions::Vector_expm1()(x); }
};

}  // namespace heddle::cpu_kernels
