// Trainers: parameters, an optimizer in a store, and a learning rate for every step. docs/training.md says more.
#pragma once

#include <heddle/c/kvstore.h>

#ifdef __cplusplus
extern "C" {
#endif

// A handle on a trainer. It keeps its store and its engine alive: destroy it before the engine. Calls of
// several threads are serialised, also with those on its store.
typedef struct heddle_trainer heddle_trainer;

typedef struct heddle_named_array {
  const char* name;
  const heddle_array* array;
} heddle_named_array;

// A function that returns the learning rate of a step; the first step is 0. It runs on the thread that calls
// the trainer, and must not use the trainer or its store.
typedef double (*heddle_schedule_fn)(void* ctx, int64_t step);

// Options of a new trainer. A member that is zero or null has its default.
typedef struct heddle_trainer_options {
  size_t struct_size;                  // sizeof(heddle_trainer_options)
  const char* optimizer;               // null: "sgd"
  const heddle_parameter* parameters;  // the optimizer's parameters
  size_t parameter_count;
  heddle_kvstore* store;        // an empty store of the parameters' engine; null: a "local" one
  heddle_schedule_fn schedule;  // null: the optimizer's lr at every step
  void* schedule_ctx;
  // Called with schedule_ctx when the trainer is gone, on any thread, or if the creation fails, except for a
  // wrong struct_size. May be null.
  heddle_destroy_fn schedule_destroy;
} heddle_trainer_options;

// Makes a trainer of parameters, which are leaves (heddle_array_set_requires_grad) of one engine; at least
// one is needed. The trainer keeps its own handles on them. `options` may be null.
HEDDLE_API heddle_status heddle_trainer_create(const heddle_named_array* parameters, size_t count,
                                               const heddle_trainer_options* options,
                                               heddle_trainer** trainer, heddle_error** error);
HEDDLE_API heddle_status heddle_trainer_destroy(heddle_trainer* trainer);

// Updates every parameter by its gradient, dense or row-sparse, times grad_scale (usually 1), and clears the
// gradients. Pushes ops and returns at once. Fails before any update if a parameter has no gradient.
HEDDLE_API heddle_status heddle_trainer_step(heddle_trainer* trainer, double grad_scale,
                                             heddle_error** error);
// *steps is the number of steps done so far; *lr is the learning rate of the next step.
HEDDLE_API heddle_status heddle_trainer_steps(const heddle_trainer* trainer, int64_t* steps,
                                              heddle_error** error);
HEDDLE_API heddle_status heddle_trainer_learning_rate(const heddle_trainer* trainer, double* lr,
                                                      heddle_error** error);

// Makes the trainer usable again after an op has failed and a wait has returned its error: removes the error
// from parameters, store and optimizer, and clears the gradients. Steps skipped by the error changed nothing;
// they are taken off the step count. Blocks.
HEDDLE_API heddle_status heddle_trainer_clear_errors(heddle_trainer* trainer, heddle_error** error);

// An archive with the optimizer's arrays and the step count; see heddle_optimizer_state. The caller destroys
// *state.
HEDDLE_API heddle_status heddle_trainer_state(const heddle_trainer* trainer, heddle_archive** state,
                                              heddle_error** error);
// Sets the optimizer's state and the count of steps, not the parameters. Blocks. A failure changes nothing.
HEDDLE_API heddle_status heddle_trainer_set_state(heddle_trainer* trainer, const heddle_archive* state,
                                                  heddle_error** error);

#ifdef __cplusplus
}
#endif
