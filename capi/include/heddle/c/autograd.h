// Gradients. A tape for heddle_backward records the calls that compute with an array that needs a gradient.
#pragma once

#include <heddle/c/row_sparse.h>

#ifdef __cplusplus
extern "C" {
#endif

// `on` 1: the array is a leaf whose gradient is accumulated, also through handles that are copied from this one later.
// Only of floating dtypes, and not while another thread uses the handle.
HEDDLE_API heddle_status heddle_array_set_requires_grad(heddle_array* array, int32_t on,
                                                        heddle_error** error);
// *needed: 1 for a leaf and for results computed from one.
HEDDLE_API heddle_status heddle_array_requires_grad(const heddle_array* array, int32_t* needed,
                                                    heddle_error** error);
// The accumulated gradient; *grad is null before the first heddle_backward, and while the gradient is row-sparse.
HEDDLE_API heddle_status heddle_array_grad(const heddle_array* array, heddle_array** grad,
                                           heddle_error** error);
// The gradient of a leaf that only operators with a row-sparse gradient have used, such as "embedding" with
// sparse_grad; else *grad is null. After a dense gradient heddle_array_grad gives the sum of both.
HEDDLE_API heddle_status heddle_array_row_sparse_grad(const heddle_array* array, heddle_row_sparse** grad,
                                                      heddle_error** error);
// Clears the gradient, dense or row-sparse.
HEDDLE_API heddle_status heddle_array_clear_grad(const heddle_array* array, heddle_error** error);

// Lends memory for the leaf's next gradient: contiguous, with its own storage, and the leaf's shape, dtype
// and device. Operators that cannot use it ignore it. A loan is for one gradient; null ends it.
HEDDLE_API heddle_status heddle_array_lend_gradient_memory(const heddle_array* leaf,
                                                           const heddle_array* memory, heddle_error** error);

// Adds the derivative of root by each leaf that it was computed from to that leaf's gradient. `seed` has
// root's shape; null: root has one element, and the seed is 1. Clears the tape unless keep_tape is 1. Pushes
// ops and returns.
HEDDLE_API heddle_status heddle_backward(const heddle_array* root, const heddle_array* seed,
                                         int32_t keep_tape, heddle_error** error);

typedef struct heddle_grad_options {
  size_t struct_size;  // sizeof(heddle_grad_options)
  // One seed for each output, of its shape; null: outputs have one element, and the seeds are 1.
  const heddle_array* const* seeds;
  int32_t keep_tape;     // 1: the tape is kept
  int32_t create_graph;  // 1: the gradients are recorded too, so that they have gradients; keeps the tape
  int32_t allow_unused;  // 1: the gradient of an input that no output was computed from is null, not an error
} heddle_grad_options;

// The derivatives of the sum of `output_count` outputs by each of `input_count` inputs, which need a
// gradient, into `gradients`, which has room for as many. Leaves' gradients do not change. options may be
// null. With create_graph, HEDDLE_FAILED names an operator whose gradient cannot be differentiated.
HEDDLE_API heddle_status heddle_grad(const heddle_array* const* outputs, size_t output_count,
                                     const heddle_array* const* inputs, size_t input_count,
                                     const heddle_grad_options* options, heddle_array** gradients,
                                     heddle_error** error);

// `on` 0: the calling thread's later computations are not recorded; 1: they are. *previous is set to the old
// value; `previous` may be null. All threads begin with 1.
HEDDLE_API heddle_status heddle_recording_set(int32_t on, int32_t* previous, heddle_error** error);

#ifdef __cplusplus
}
#endif
