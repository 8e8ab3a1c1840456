// Activations: functions of each element with which networks bend. In floating point: f64 for an integer or bool x.
// A row of activation_rows.h is all that an activation consists of. The operator, its kernels for each device, its gradient and second
// gradient, the layer of the library heddle::nn, their entries in the registries, documentation and tests are made of it.
#pragma once

#include <heddle/activations/activation_rows.h>
#include <heddle/ndarray.h>

namespace heddle {

#define HEDDLE_DECLARE_ACTIVATION(name, ...) NDArray name(const NDArray& x, Where where = Where::current());
#define HEDDLE_DECLARE_ACTIVATION_WITH_NUMBER(name, layer, number, otherwise, ...) \
  NDArray name(const NDArray& x, double number = otherwise, Where where = Where::current());

HEDDLE_ACTIVATIONS(HEDDLE_DECLARE_ACTIVATION)
HEDDLE_ACTIVATIONS_WITH_NUMBER(HEDDLE_DECLARE_ACTIVATION_WITH_NUMBER)

#undef HEDDLE_DECLARE_ACTIVATION
#undef HEDDLE_DECLARE_ACTIVATION_WITH_NUMBER

}  // namespace heddle
