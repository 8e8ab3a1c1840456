// Gradients. Calls that compute with an array that needs a gradient are recorded; heddle_backward goes back over them.
#pragma once

#include <heddle/c/row_sparse.h>

#ifdef __cplusplus
extern "C" {
#endif

// on: 1: the array is a leaf whose gradient is accumulated, also through handles that are copied from this one later. Only
// of floating dtypes, and not while another thread uses the handle.
HEDDLE_API heddle_status heddle_array_set_requires_grad(heddle_array* array, int32_t on,
                                                        heddle_error** error);
// 1 for a leaf and for what was computed from one.
HEDDLE_API heddle_status heddle_array_requires_grad(const heddle_array* array, int32_t* needed,
                                                    heddle_error** error);
// The accumulated gradient; *grad is null before the first heddle_backward, and while the gradient is row-sparse.
HEDDLE_API heddle_status heddle_array_grad(const heddle_array* array, heddle_array** grad,
                                           heddle_error** error);
// The same of a leaf that only operators with a row-sparse gradient have used, such as "embedding" with sparse_grad; else
// *grad is null. After a dense gradient heddle_array_grad gives the sum: at most one of the two is not null.
HEDDLE_API heddle_status heddle_array_row_sparse_grad(const heddle_array* array, heddle_row_sparse** grad,
                                                      heddle_error** error);
// Both.
HEDDLE_API heddle_status heddle_array_clear_grad(const heddle_array* array, heddle_error** error);

// Lends memory for the leaf's next gradient: contiguous, with a storage of its own, else like the leaf. An operator that can
// computes the gradient there; others ignore it. A loan is for one gradient; a null `memory` ends it.
HEDDLE_API heddle_status heddle_array_lend_gradient_memory(const heddle_array* leaf,
                                                           const heddle_array* memory, heddle_error** error);

// Adds the derivative of root by each leaf that it was computed from to that leaf's gradient. `seed` has root's shape; null:
// root has one element, and the seed is 1. The record is gone then, unless keep_tape is 1. Returns when all ops are pushed.
HEDDLE_API heddle_status heddle_backward(const heddle_array* root, const heddle_array* seed,
                                         int32_t keep_tape, heddle_error** error);

typedef struct heddle_grad_options {
  size_t struct_size;  // sizeof(heddle_grad_options)
  const heddle_array* const*
      seeds;             // one for each output, of its shape; null: outputs of one element, whose seeds are 1
  int32_t keep_tape;     // 1: the record stays
  int32_t create_graph;  // 1: the gradients are recorded too, so that they have gradients; keeps the record
  int32_t allow_unused;  // 1: the gradient of an input that no output was computed from is null, not an error
} heddle_grad_options;

// The derivatives of the sum of `output_count` outputs by each of `input_count` inputs, which need a gradient, into
// `gradients`, which has place for as many. What leaves have accumulated stays as it is. options may be null.
// HEDDLE_FAILED names an operator whose gradient has none, with create_graph.
HEDDLE_API heddle_status heddle_grad(const heddle_array* const* outputs, size_t output_count,
                                     const heddle_array* const* inputs, size_t input_count,
                                     const heddle_grad_options* options, heddle_array** gradients,
                                     heddle_error** error);

// on: 0: what the calling thread computes from now on is not recorded; 1: it is. *previous, which may be null as a pointer,
// is how it was. All threads begin with 1.
HEDDLE_API heddle_status heddle_recording_set(int32_t on, int32_t* previous, heddle_error** error);

#ifdef __cplusplus
}
#endif
