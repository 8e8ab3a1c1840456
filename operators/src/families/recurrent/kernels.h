// Kernel types of recurrent networks.
#pragma once

#include <cstdint>
#include <string>

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>

namespace heddle {

// gru: the reset gate multiplies the state's part of the new gate; gru_reset_before: the state, before its product.
enum class RecurrentCell : std::uint8_t { tanh, relu, lstm, gru, gru_reset_before };

struct RecurrentProblem {
  const char* op;  // named by errors
  RecurrentCell cell;
  std::int64_t steps, batch, features, hidden;
  std::int64_t state;  // numbers of h: `hidden`, or those of an lstm's projection
  bool projected;      // whether an lstm has a projection
  bool reverse, batch_first;
  // f16 or bf16: operands of matrix products are rounded to it; else they are not. What is between the products has the arrays' dtype.
  DType products;

  bool has_cell_state() const { return cell == RecurrentCell::lstm; }
  bool is_gru() const { return cell == RecurrentCell::gru || cell == RecurrentCell::gru_reset_before; }
  std::int64_t gates() const { return cell == RecurrentCell::lstm ? 4 : is_gru() ? 3 : 1; }
  // What is kept for the backward pass, in numbers for each unit and step: the gates behind their functions; the cell state of an lstm,
  // or the part of a gru's new gate that comes from the state.
  std::int64_t kept() const {
    return gates() + (cell == RecurrentCell::lstm || cell == RecurrentCell::gru ? 1 : 0);
  }
  std::int64_t units() const { return steps * batch * hidden; }  // of all steps

  // The results, and likewise their gradients, are one array: the output, the final h, and the final c of an lstm.
  std::int64_t output_size() const { return steps * batch * state; }
  std::int64_t state_size() const { return batch * state; }
  std::int64_t cell_size() const { return has_cell_state() ? batch * hidden : 0; }
  std::int64_t results_size() const { return output_size() + state_size() + cell_size(); }
};

// Contiguous arrays of one dtype, f32 or f64; lengths are integers of any dtype. All but the first three may be undefined. Of an lstm
// alone: weight_hr (state, hidden), the projection; peepholes (3 * hidden), the weights of the cell state in the gates i, f, o.
struct RecurrentArrays {
  NDArray x, weight_ih, weight_hh, bias_ih, bias_hh, h, c, weight_hr, peepholes, lengths;
};

// kept: problem.units() * problem.kept() numbers, for the backward kernel.
using RecurrentKernel = void(const KernelContext& context, const RecurrentProblem& problem,
                             const RecurrentArrays& in, const NDArray& results, const NDArray& kept);

// InvalidArgument for a length (as a text) outside of 0 to `steps`.
[[noreturn]] void refuse_length(const char* op, std::int64_t element, const std::string& length,
                                std::int64_t steps);

// The gradients of RecurrentArrays from that of the results; those that are undefined are not wanted.
struct RecurrentGradients {
  NDArray x, weight_ih, weight_hh, bias_ih, bias_hh, h, c, weight_hr, peepholes;
};
using RecurrentBackwardKernel = void(const KernelContext& context, const RecurrentProblem& problem,
                                     const RecurrentArrays& in, const NDArray& results, const NDArray& kept,
                                     const NDArray& grad, const RecurrentGradients& gradients);

}  // namespace heddle
