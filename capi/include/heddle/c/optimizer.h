// Optimizers by name: sgd, adam, adamw. An update is one op.
#pragma once

#include <heddle/c/array.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct heddle_optimizer heddle_optimizer;  // keeps the state of any number of weights

// A parameter that differs from its default, see docs/training.md: "lr", "momentum"; switches are 0 or 1.
typedef struct heddle_parameter {
  const char* name;
  double value;
} heddle_parameter;

// Zeros are the defaults.
typedef struct heddle_update_options {
  size_t struct_size;  // sizeof(heddle_update_options)
  double lr;           // of this update; 0: the optimizer's own
  double grad_scale;   // the gradient is multiplied by it; 0: 1
} heddle_update_options;

HEDDLE_API heddle_status heddle_optimizer_create(const char* name, const heddle_parameter* parameters,
                                                 size_t count, heddle_optimizer** optimizer,
                                                 heddle_error** error);
HEDDLE_API heddle_status heddle_optimizer_destroy(heddle_optimizer* optimizer);
// Reads the gradient and changes the weight, which are alike: f32 or f64, the weight contiguous. Each weight has a key of
// its own, the same each time. Null options: the defaults.
HEDDLE_API heddle_status heddle_optimizer_update(heddle_optimizer* optimizer, int64_t key,
                                                 const heddle_array* weight, const heddle_array* grad,
                                                 const heddle_update_options* options, heddle_error** error);

#ifdef __cplusplus
}
#endif
