// Connectionist temporal classification: labels for sequences without an alignment (Graves et al., ICML'06). Floating dtypes; i64 results
// of the decoders.
#pragma once

#include <array>
#include <cstdint>

#include <heddle/losses.h>
#include <heddle/ndarray.h>

namespace heddle {

struct CtcOptions {
  std::int64_t blank = 0;                 // the class that stands for no label
  Reduction reduction = Reduction::mean;  // mean: of the losses, each divided by the length of its target
  bool zero_infinity = false;             // the loss of a target that no alignment gives is 0, not infinity
};

// -log(probability of the target) of each sequence of the batch, over all alignments. log_probs: log_softmax of (T, N, C), or (T, C) for
// one sequence. targets: integers, (N, S) padded with anything, or all labels in a row, as many as target_lengths sum up to. The lengths: integers (N);
// of one sequence also scalars. A target that no alignment gives has the gradient 0. The first and the second gradient are native. A length or
// label outside its range, or a label that is the blank, fails the op.
NDArray ctc_loss(const NDArray& log_probs, const NDArray& targets, const NDArray& input_lengths,
                 const NDArray& target_lengths, const CtcOptions& options = {},
                 Where where = Where::current());

// The labels of the most probable class at each step, without repetitions and then without blanks: (N, T), padded with -1, and
// their number (N). Without input_lengths (undefined) all T steps count. Of (T, C): (T) and a scalar. The first of equal classes counts.
std::array<NDArray, 2> ctc_greedy_decode(const NDArray& log_probs, const NDArray& input_lengths = {},
                                         std::int64_t blank = 0, Where where = Where::current());

// The labels that are most probable over all their alignments, among those that a search finds which keeps the `beam` most probable
// beginnings after each step (Graves, 2012, without a language model): (N, T), padded with -1, their number (N), and the logarithm of
// their probability (N), in the dtype of log_probs.
std::array<NDArray, 3> ctc_beam_search(const NDArray& log_probs, const NDArray& input_lengths = {},
                                       std::int64_t beam = 16, std::int64_t blank = 0,
                                       Where where = Where::current());

}  // namespace heddle
