// Optimizers by name: "sgd", "adam", "adamw". An update is one op.
#pragma once

#include <heddle/c/array_file.h>
#include <heddle/c/row_sparse.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct heddle_optimizer heddle_optimizer;  // keeps the state of any number of weights

// The key of a weight's state, and of a value of a store: the name, or the number if the name is null. A name
// that is a whole number, as "5", is that number.
typedef struct heddle_key {
  int64_t number;
  const char* name;  // 1 to 1,000 bytes without control characters; borrowed during a call
} heddle_key;

// A parameter of an optimizer, see docs/training.md: "lr", "momentum"; switches are 0 or 1.
typedef struct heddle_parameter {
  const char* name;
  double value;
} heddle_parameter;

// Options of one update.
typedef struct heddle_update_options {
  size_t struct_size;        // sizeof(heddle_update_options)
  const double* lr;          // the learning rate; null: the optimizer's own
  const double* grad_scale;  // factor of the gradient; null: 1
} heddle_update_options;

HEDDLE_API heddle_status heddle_optimizer_create(const char* name, const heddle_parameter* parameters,
                                                 size_t count, heddle_optimizer** optimizer,
                                                 heddle_error** error);
HEDDLE_API heddle_status heddle_optimizer_destroy(heddle_optimizer* optimizer);
// "sgd" ... The text is static.
HEDDLE_API heddle_status heddle_optimizer_name(const heddle_optimizer* optimizer, const char** name,
                                               heddle_error** error);
// All parameters, also those with their defaults, by name; the names are static. Writes `room` of them at
// most; *count is the number of all.
HEDDLE_API heddle_status heddle_optimizer_parameters(const heddle_optimizer* optimizer,
                                                     heddle_parameter* parameters, size_t room, size_t* count,
                                                     heddle_error** error);
// Updates the weight by the gradient, of the same shape and dtype: f32 or f64; the weight is contiguous. Each
// weight has its own key, the same in every update. Null options: the defaults.
HEDDLE_API heddle_status heddle_optimizer_update(heddle_optimizer* optimizer, heddle_key key,
                                                 const heddle_array* weight, const heddle_array* grad,
                                                 const heddle_update_options* options, heddle_error** error);
// Updates the rows that grad has, each like a separate weight; other rows keep weight and state.
HEDDLE_API heddle_status heddle_optimizer_update_rows(heddle_optimizer* optimizer, heddle_key key,
                                                      const heddle_array* weight,
                                                      const heddle_row_sparse* grad,
                                                      const heddle_update_options* options,
                                                      heddle_error** error);

// An archive of "KEY.velocity" and the like, and "KEY.updates", which the caller destroys. Later updates
// change its arrays: save or clone them before.
HEDDLE_API heddle_status heddle_optimizer_state(const heddle_optimizer* optimizer, heddle_archive** state,
                                                heddle_error** error);
// Replaces all state by copies of a result of heddle_optimizer_state. Blocks. A failure changes nothing.
HEDDLE_API heddle_status heddle_optimizer_set_state(heddle_optimizer* optimizer, const heddle_archive* state,
                                                    heddle_error** error);
// Removes the poison of failed gradients from the state; skipped updates changed nothing. Clear the weights'
// errors as well (heddle_clear_error).
HEDDLE_API heddle_status heddle_optimizer_clear_errors(heddle_optimizer* optimizer, heddle_error** error);

#ifdef __cplusplus
}
#endif
