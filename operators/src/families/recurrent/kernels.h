// Kernel types of recurrent networks.
#pragma once

#include <cstdint>

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>

namespace heddle {

enum class RecurrentCell : std::uint8_t { tanh, relu, lstm, gru };

struct RecurrentProblem {
  const char* op;  // named by errors
  RecurrentCell cell;
  std::int64_t steps, batch, features, hidden;
  bool reverse, batch_first;
  // f16 or bf16: operands of matrix products are rounded to it; else they are not. What is between the products has the arrays' dtype.
  DType products;

  bool has_cell_state() const { return cell == RecurrentCell::lstm; }
  std::int64_t gates() const { return cell == RecurrentCell::lstm ? 4 : cell == RecurrentCell::gru ? 3 : 1; }
  // What is kept for the backward pass, in numbers for each element of the output: the gates behind their functions; the cell state of
  // an lstm, or the part of a gru's new gate that comes from the state.
  std::int64_t kept() const { return gates() + (gates() > 1 ? 1 : 0); }

  // The results, and likewise their gradients, are one array: the output, the final h, and the final c of an lstm.
  std::int64_t output_size() const { return steps * batch * hidden; }
  std::int64_t state_size() const { return batch * hidden; }
  std::int64_t results_size() const { return output_size() + (has_cell_state() ? 2 : 1) * state_size(); }
};

// Contiguous arrays of one dtype, f32 or f64; lengths are integers of any dtype. Biases, states and lengths may be undefined.
struct RecurrentArrays {
  NDArray x, weight_ih, weight_hh, bias_ih, bias_hh, h, c, lengths;
};

// kept: steps * batch * hidden * problem.kept() numbers, for the backward kernel.
using RecurrentKernel = void(const KernelContext& context, const RecurrentProblem& problem,
                             const RecurrentArrays& in, const NDArray& results, const NDArray& kept);

// The gradients of RecurrentArrays from that of the results; those that are undefined are not wanted.
struct RecurrentGradients {
  NDArray x, weight_ih, weight_hh, bias_ih, bias_hh, h, c;
};
using RecurrentBackwardKernel = void(const KernelContext& context, const RecurrentProblem& problem,
                                     const RecurrentArrays& in, const NDArray& results, const NDArray& kept,
                                     const NDArray& grad, const RecurrentGradients& gradients);

}  // namespace heddle
