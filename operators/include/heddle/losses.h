// Losses: how far a network's results are from what was wanted. Floating dtypes; all differentiable, to any order. A scalar, the
// mean or the sum over all elements or rows, or with Reduction::none one loss for each.
#pragma once

#include <cstdint>

#include <heddle/ndarray.h>

namespace heddle {

enum class Reduction { mean, sum, none };

// Element by element; y and target broadcast.
NDArray mse_loss(const NDArray& y, const NDArray& target, Reduction reduction = Reduction::mean,
                 Where where = Where::current());  // (y - target)^2
NDArray l1_loss(const NDArray& y, const NDArray& target, Reduction reduction = Reduction::mean,
                Where where = Where::current());  // |y - target|
// Half the square of the difference up to `delta`, linear beyond (Huber 1964).
NDArray huber_loss(const NDArray& y, const NDArray& target, double delta = 1,
                   Reduction reduction = Reduction::mean, Where where = Where::current());
// The binary cross entropy of the probability sigmoid(logits) and a target in [0, 1], computed without overflow.
// `positive_weight` is the weight of the target 1.
NDArray bce_with_logits(const NDArray& logits, const NDArray& target, double positive_weight = 1,
                        Reduction reduction = Reduction::mean, Where where = Where::current());
// target * (log(target) - log_probabilities), the terms of the Kullback-Leibler divergence; 0 where target is 0. With
// Reduction::mean the sum divided by the size of the first axis.
NDArray kl_div(const NDArray& log_probabilities, const NDArray& target, Reduction reduction = Reduction::mean,
               Where where = Where::current());
// max(0, margin - y * target), with targets 1 and -1.
NDArray hinge_loss(const NDArray& y, const NDArray& target, double margin = 1,
                   Reduction reduction = Reduction::mean, Where where = Where::current());

// max(0, |anchor - positive| - |anchor - negative| + margin), with the Euclidean norms of rows: arrays (..., D), a loss for each row.
NDArray triplet_loss(const NDArray& anchor, const NDArray& positive, const NDArray& negative,
                     double margin = 1, Reduction reduction = Reduction::mean,
                     Where where = Where::current());

struct ClassOptions {
  NDArray weight{};          // (C): the weight of each class; the mean is one of weighted rows
  std::int64_t ignore = -1;  // rows with this label count nothing
  double smoothing =
      0;  // share of the target that is spread over all classes (Szegedy et al., CVPR'16); cross_entropy_with
  Reduction reduction = Reduction::mean;
};

// -log_probabilities[label] of each row (..., C); labels (...) integers. A label outside 0 .. C-1 that is not `ignore` fails the op.
NDArray nll_loss(const NDArray& log_probabilities, const NDArray& labels, const ClassOptions& options = {},
                 Where where = Where::current());
// nll_loss of log_softmax(logits), smoothed. cross_entropy (softmax.h) is the mean without options, in one op.
NDArray cross_entropy_with(const NDArray& logits, const NDArray& labels, const ClassOptions& options = {},
                           Where where = Where::current());
// -sum(target * log_softmax(logits)) of each row, with a target (N, C) of probabilities.
NDArray soft_cross_entropy(const NDArray& logits, const NDArray& target,
                           Reduction reduction = Reduction::mean, Where where = Where::current());

}  // namespace heddle
