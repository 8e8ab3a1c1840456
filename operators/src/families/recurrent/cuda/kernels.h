// The kernels of recurrent networks for GPUs, in plain types: nvcc compiles C++17. forward.cc and backward.cc launch them between products
// of matrices.
#pragma once

#include "cuda/fault_slot.h"

namespace heddle::cuda_kernels {

// Has RecurrentCell's numbers.
enum class Cell : unsigned char { tanh, relu, lstm, gru, gru_reset_before };

// Matrices of all steps have a row for each place of x: place_of() in steps.h. Rows behind an element's length are not computed.
struct Recurrence {
  Cell cell;
  bool f64;  // else f32
  bool projected, reverse, batch_first;
  unsigned char operands;  // DType of what products multiply: that of the arrays, or f16 or bf16
  long long steps, batch, features, hidden, state;
  long long gates;           // groups of `hidden` numbers in a row of the gates
  long long width;           // numbers in a row of their gradients
  const long long* lengths;  // all within 0 to steps; null: each is `steps`
};

// Functions launch kernels on a cudaStream_t, and return why one could not be launched; null if all were.

// lengths = the given integers of this DType, each limited to 0 to `steps`. One outside is reported, with its position; `fault` may be null.
const char* launch_lengths(void* stream, const void* given, unsigned char type, long long batch,
                           long long steps, long long* lengths, FaultSlot* fault);
// to = `count` numbers rounded to the DType of operands.
const char* launch_rounding(void* stream, const Recurrence& r, const void* from, long long count, void* to);
// to = the rows of x as operands, 0 behind the lengths.
const char* launch_rows_of_x(void* stream, const Recurrence& r, const void* x, void* to);

struct ForwardArrays {
  const void *bias_ih, *bias_hh;  // each may be null
  const void *first_h, *first_c;  // null: 0
  const void* peepholes;          // null: none
  void* bias;   // (gates * hidden): sums; of a gru that resets behind the product, also the state part's bias
  void *h, *c;  // states of the elements, in the end the final ones
  void* h_operand;       // h as an operand, if that has another type; else null
  void* between;         // (batch, hidden): operand of the product behind the cell
  void *gates, *beside;  // kept: RecurrentProblem::kept()
  void* output;
  const void* tile;  // (batch, ...): the step's product
};
const char* launch_forward_start(void* stream, const Recurrence& r, const ForwardArrays& arrays);
// The cell of a step behind its product, and what follows the product behind the cell.
const char* launch_forward_cell(void* stream, const Recurrence& r, const ForwardArrays& arrays,
                                long long time);
const char* launch_forward_state(void* stream, const Recurrence& r, const ForwardArrays& arrays,
                                 long long time);

struct BackwardArrays {
  const void *first_h, *first_c;        // null: 0
  const void* peepholes;                // null: none
  const void *gates, *beside, *output;  // of the forward pass
  const void *output_grad, *final_h_grad, *final_c_grad;
  void *h_grad, *c_grad;  // of the states behind a step, in the end of the initial ones
  void* state_grads;      // with a projection: operands (rows, state), of the states behind all steps
  void* d;                // (rows, width), of the gates before their functions
  void* d_operand;        // the same as operands, if these have another type; else null
  const void* tile;       // (batch, hidden): a step's product
};
const char* launch_backward_start(void* stream, const Recurrence& r, const BackwardArrays& arrays);
// With a projection: the gradient of the state, before its product with the projection.
const char* launch_backward_state(void* stream, const Recurrence& r, const BackwardArrays& arrays,
                                  long long time);
const char* launch_backward_cell(void* stream, const Recurrence& r, const BackwardArrays& arrays,
                                 long long time);
// The gradient of the reset gate, for a gru that resets before its product. It needs the product of the new gate's gradient.
const char* launch_backward_reset(void* stream, const Recurrence& r, const BackwardArrays& arrays,
                                  long long time);

// For gradients of weights, all 0 behind the lengths. Operands: rows (state) before each step; rows (hidden) that the product behind the
// cell multiplied. In the arrays' type: rows (3 * hidden) whose sums are the gradients of peepholes.
const char* launch_states_before(void* stream, const Recurrence& r, const BackwardArrays& arrays, void* to);
const char* launch_gated_rows(void* stream, const Recurrence& r, const BackwardArrays& arrays, void* to);
const char* launch_peephole_terms(void* stream, const Recurrence& r, const BackwardArrays& arrays, void* to);
// The gradients of biases, each of which may be null, from the sums of the columns of d.
const char* launch_bias_gradients(void* stream, const Recurrence& r, const void* sums, void* of_ih,
                                  void* of_hh);

}  // namespace heddle::cuda_kernels
