// The kernels of softmax and cross entropy for GPUs, in plain types: nvcc compiles C++17. register.cc registers them.
#pragma once

#include "cuda/fault_slot.h"
#include "cuda/scratch.h"

namespace heddle::cuda_kernels {

// As SoftmaxProblem. There is one line at least, and length is above 0. `type`: the DType of x and x_grad, beside whose halves
// other arrays are f32.
struct Lines {
  long long outer, length, inner;
  bool log;
  unsigned char type;
};

// Launch kernels on a cudaStream_t. Return why one could not be launched; null if all were.
const char* launch_softmax(void* stream, const Lines& lines, const void* x, void* y, unsigned char y_type,
                           ScratchBlocks& scratch);
const char* launch_softmax_backward(void* stream, const Lines& lines, const void* g, const void* y,
                                    void* x_grad, ScratchBlocks& scratch);

// Dense rows of classes, and the label of each; one row at least. `type`: the DType of logits and logits_grad.
struct LabelledRows {
  long long rows, classes;
  unsigned char type;
  const void* labels;
  unsigned char label_dtype;  // a DType
};

// losses[row] = -log(probability of the row's label). A label outside of the classes is reported with its row as place.
const char* launch_cross_entropy(void* stream, const LabelledRows& rows, const void* logits,
                                 void* probabilities, double* losses, FaultSlot* fault,
                                 ScratchBlocks& scratch);
const char* launch_cross_entropy_backward(void* stream, const LabelledRows& rows, const void* g,
                                          const void* probabilities, void* logits_grad);

}  // namespace heddle::cuda_kernels
