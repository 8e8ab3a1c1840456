// Optimizers by name, such as "adamw"; docs/training.md lists them. Each update of a weight is one op.
#pragma once

#include <heddle/c/array_file.h>
#include <heddle/c/row_sparse.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct heddle_optimizer heddle_optimizer;  // a handle on an optimizer and its state of each weight

// The key of a weight's state in an optimizer, and of a value in a store: `name`, or `number` if `name` is
// null. A name that is a whole number, such as "5", is the same key as that number.
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
  const double* lr;          // the learning rate; null: the optimizer's parameter "lr"
  const double* grad_scale;  // the gradient is multiplied by this number; null: 1
} heddle_update_options;

HEDDLE_API heddle_status heddle_optimizer_create(const char* name, const heddle_parameter* parameters,
                                                 size_t count, heddle_optimizer** optimizer,
                                                 heddle_error** error);
HEDDLE_API heddle_status heddle_optimizer_destroy(heddle_optimizer* optimizer);
// The optimizer's name, such as "sgd". The text is static.
HEDDLE_API heddle_status heddle_optimizer_name(const heddle_optimizer* optimizer, const char** name,
                                               heddle_error** error);
// Lists the optimizer's parameters, including those that have their defaults; the names are static. Writes at
// most `room` parameters; *count is the number of all.
HEDDLE_API heddle_status heddle_optimizer_parameters(const heddle_optimizer* optimizer,
                                                     heddle_parameter* parameters, size_t room, size_t* count,
                                                     heddle_error** error);
// Updates a weight by its gradient. The weight is contiguous; weight and gradient have the same shape and
// dtype, f32 or f64. Each weight has its own key, the same in every update. `options` may be null.
HEDDLE_API heddle_status heddle_optimizer_update(heddle_optimizer* optimizer, heddle_key key,
                                                 const heddle_array* weight, const heddle_array* grad,
                                                 const heddle_update_options* options, heddle_error** error);
// Updates the rows of the weight that the row-sparse gradient has, each like a separate weight. The other
// rows keep their values and their state.
HEDDLE_API heddle_status heddle_optimizer_update_rows(heddle_optimizer* optimizer, heddle_key key,
                                                      const heddle_array* weight,
                                                      const heddle_row_sparse* grad,
                                                      const heddle_update_options* options,
                                                      heddle_error** error);

// The optimizer's state as an archive with arrays such as "KEY.velocity" and "KEY.updates". Later updates
// change these arrays: save or clone them before. The caller destroys *state.
HEDDLE_API heddle_status heddle_optimizer_state(const heddle_optimizer* optimizer, heddle_archive** state,
                                                heddle_error** error);
// Replaces all state by copies of a result of heddle_optimizer_state. Blocks. A failure changes nothing.
HEDDLE_API heddle_status heddle_optimizer_set_state(heddle_optimizer* optimizer, const heddle_archive* state,
                                                    heddle_error** error);
// Removes the errors that failed gradients left in the optimizer's state. Updates with such gradients were
// skipped and changed nothing. The weights have the errors too: clear them with heddle_clear_error.
HEDDLE_API heddle_status heddle_optimizer_clear_errors(heddle_optimizer* optimizer, heddle_error** error);

#ifdef __cplusplus
}
#endif
