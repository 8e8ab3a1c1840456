// Recurrent networks: one layer in one direction over a whole sequence, as one op. Floating dtypes; differentiable in x, weights, biases
// and initial states, to every order. Halves are computed as f32. Weights are laid out as PyTorch's. The results of a call are views of one
// array: a final state that is kept, for the next part of a sequence or in a list, keeps the states of all steps; its copy() does not.
#pragma once

#include <array>

#include <heddle/ndarray.h>

namespace heddle {

// `gates` is 1 for rnn, 4 for lstm (input, forget, cell, output), 3 for gru (reset, update, new); H units, F features.
struct RecurrentWeights {
  NDArray ih;         // of the input: (gates * H, F)
  NDArray hh;         // of the state before: (gates * H, H)
  NDArray ih_bias{};  // (gates * H); undefined: 0
  NDArray hh_bias{};  // (gates * H); undefined: 0
  // Of an lstm alone, each undefined: without.
  NDArray hr{};  // a projection (P, H): h is hr * o tanh(c), of P numbers, and hh is (4 * H, P)
  NDArray
      peepholes{};  // (3 * H): times the cell state, added to i and f (c before the step) and to o (c behind it)
};

// `lengths` (N), integers from 0 to T: the number of steps of each element of the batch; undefined: all have T. Behind it the output is
// 0, nothing is computed, and x is not read; the final state is that of the last step, or the initial one of an element without steps.
// A length outside of 0 to T fails the op. `reverse`: from the last step of each element to the first.
struct RecurrentOptions {
  NDArray lengths{};
  bool reverse = false;
  bool batch_first = false;  // x is (N, T, F), the output (N, T, H); else (T, N, F), (T, N, H)
  bool reset_after = true;   // of a gru alone: r multiplies the h part of n; false: h, before its product
};

// h = tanh(x weight_ih^T + h weight_hh^T + biases), or max(0, .) with `relu` (Elman, Cognitive Science 14, 1990). h (N, H): the initial
// state; undefined: 0. Returns the states of all steps, and the final one (N, H).
std::array<NDArray, 2> rnn(const NDArray& x, const RecurrentWeights& weights, const NDArray& h = {},
                           bool relu = false, const RecurrentOptions& options = {},
                           Where where = Where::current());

// i, f, o = sigmoid(.), g = tanh(.); c = f c + i g; h = o tanh(c) (Hochreiter and Schmidhuber, Neural Computation 9, 1997; Gers et al.,
// 2000; the projection: Sak et al., Interspeech 2014; peepholes: Gers and Schmidhuber, IJCNN 2000). h (N, H), or (N, P) with a
// projection, and c (N, H): the initial states; each undefined: 0. Returns h of all steps, and the final h and c.
std::array<NDArray, 3> lstm(const NDArray& x, const RecurrentWeights& weights, const NDArray& h = {},
                            const NDArray& c = {}, const RecurrentOptions& options = {},
                            Where where = Where::current());

// r, z = sigmoid(.), n = tanh(x part + r * h part); h = (1 - z) n + z h. This is cuDNN's and PyTorch's form; that of Cho et al., EMNLP'14,
// whose h part of n is that of r * h, is reset_after = false. Returns what rnn() does.
std::array<NDArray, 2> gru(const NDArray& x, const RecurrentWeights& weights, const NDArray& h = {},
                           const RecurrentOptions& options = {}, Where where = Where::current());

}  // namespace heddle
