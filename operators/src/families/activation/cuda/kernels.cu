// Activations and their gradients on GPUs, made of the rows of heddle/activations/activation_rows.h. The functions are those of CUDA's library.
#include <cmath>

#include <heddle/activations/activation_rows.h>

#include "families/activation/cuda/kernels.h"
#include "families/activation/lane_functors.h"
#include "families/elementwise/cuda/map_by_dtype.h"

namespace heddle::cuda_kernels {
namespace {

struct LibraryMath {
  template <class T> HEDDLE_FUNCTOR static T exp(T x) { return std::exp(x); }
  template <class T> HEDDLE_FUNCTOR static T log(T x) { return std::log(x); }
  template <class T> HEDDLE_FUNCTOR static T tanh(T x) { return std::tanh(x); }
  template <class T> HEDDLE_FUNCTOR static T expm1(T x) { return std::expm1(x); }
  template <class T> HEDDLE_FUNCTOR static T log1p(T x) { return std::log1p(x); }
  template <class T> HEDDLE_FUNCTOR static T sigmoid(T x) {
    const T e = std::exp(-std::fabs(x));
    return (x < T{0} ? e : T{1}) / (T{1} + e);
  }
  template <class T> HEDDLE_FUNCTOR static T normal_cdf(T x) {
    return std::erfc(x * T(-0.70710678118654752)) * T(0.5);
  }
};

HEDDLE_ACTIVATIONS(HEDDLE_ACTIVATION_OBJECTS)
HEDDLE_ACTIVATIONS_WITH_NUMBER(HEDDLE_ACTIVATION_OBJECTS_WITH_NUMBER)

}  // namespace

#define HEDDLE_VALUE(name, ...) {#name, map_floating<Value_##name<LibraryMath>, void, 1>},
#define HEDDLE_GRADIENT(name, ...) {#name "_gradient", map_floating<Gradient_##name<LibraryMath>, void, 2>},
#define HEDDLE_WITH_NUMBER(name, ...)                        \
  {#name, map_floating<Value_##name<LibraryMath>, void, 2>}, \
      {#name "_derivative", map_floating<Derivative_##name<LibraryMath>, void, 2>},

const Entry kActivations[kActivationCount] = {HEDDLE_ACTIVATIONS(HEDDLE_VALUE)};
const Entry kActivationGradients[kActivationCount] = {HEDDLE_ACTIVATIONS(HEDDLE_GRADIENT)};
const Entry kActivationsWithNumber[2 * kActivationWithNumberCount] = {
    HEDDLE_ACTIVATIONS_WITH_NUMBER(HEDDLE_WITH_NUMBER)};

}  // namespace heddle::cuda_kernels
