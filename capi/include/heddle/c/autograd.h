// Gradients. Calls that compute with an array that needs a gradient are recorded on a tape, from which
// heddle_backward computes the gradients.
#pragma once

#include <heddle/c/row_sparse.h>

#ifdef __cplusplus
extern "C" {
#endif

// `on` 1: makes the array a leaf, whose gradient is accumulated. This holds for this handle and for handles
// copied from it later. The dtype must be floating, and no other thread may use the handle meanwhile.
HEDDLE_API heddle_status heddle_array_set_requires_grad(heddle_array* array, int32_t on,
                                                        heddle_error** error);
// *needed is 1 for a leaf and for an array that was computed from a leaf, else 0.
HEDDLE_API heddle_status heddle_array_requires_grad(const heddle_array* array, int32_t* needed,
                                                    heddle_error** error);
// The accumulated gradient of a leaf. *grad is null before the first heddle_backward, and while the gradient
// is row-sparse.
HEDDLE_API heddle_status heddle_array_grad(const heddle_array* array, heddle_array** grad,
                                           heddle_error** error);
// The gradient of a leaf if it is row-sparse: only operators with a row-sparse gradient, such as "embedding"
// with sparse_grad, have used the leaf. Otherwise *grad is null. Once a dense gradient was added,
// heddle_array_grad gives the sum of the dense and the row-sparse gradient.
HEDDLE_API heddle_status heddle_array_row_sparse_grad(const heddle_array* array, heddle_row_sparse** grad,
                                                      heddle_error** error);
// Clears the gradient, dense or row-sparse.
HEDDLE_API heddle_status heddle_array_clear_grad(const heddle_array* array, heddle_error** error);

// Lends memory for the leaf's next gradient: a contiguous array with its own storage and the leaf's shape,
// dtype and device. Operators that cannot use the memory ignore it. It is lent for one gradient; null takes
// it back.
HEDDLE_API heddle_status heddle_array_lend_gradient_memory(const heddle_array* leaf,
                                                           const heddle_array* memory, heddle_error** error);

// For each leaf that `root` was computed from, adds the derivative of root by the leaf to the leaf's
// gradient. `seed` is the gradient of root and has its shape; null stands for 1 if root has one element.
// Clears the tape unless keep_tape is 1. Pushes ops and returns at once.
HEDDLE_API heddle_status heddle_backward(const heddle_array* root, const heddle_array* seed,
                                         int32_t keep_tape, heddle_error** error);

typedef struct heddle_grad_options {
  size_t struct_size;  // sizeof(heddle_grad_options)
  // The gradient of each output, with the output's shape. Null stands for ones if each output has one
  // element.
  const heddle_array* const* seeds;
  int32_t keep_tape;     // 1: the tape can be used again; 0: it is cleared
  int32_t create_graph;  // 1: records how gradients are computed, for second derivatives; keeps the tape
  int32_t allow_unused;  // 1: an input that no output depends on has a null gradient; 0: it is an error
} heddle_grad_options;

// Computes the derivative of the sum of all outputs by each input, and writes it to gradients[i] for
// inputs[i]. The inputs must need a gradient. The accumulated gradients of leaves do not change. `options`
// may be null. With create_graph, the message of HEDDLE_FAILED names an operator whose gradient cannot be
// differentiated.
HEDDLE_API heddle_status heddle_grad(const heddle_array* const* outputs, size_t output_count,
                                     const heddle_array* const* inputs, size_t input_count,
                                     const heddle_grad_options* options, heddle_array** gradients,
                                     heddle_error** error);

// Sets whether the calling thread's later computations are recorded for gradients: 1 (at first) or 0.
// *previous is set to the old value; `previous` may be null.
HEDDLE_API heddle_status heddle_recording_set(int32_t on, int32_t* previous, heddle_error** error);

#ifdef __cplusplus
}
#endif
