// Metrics of scores, losses, values and sequences.
#pragma once

#include <cstdint>
#include <vector>

#include <heddle/metric.h>

namespace heddle {

// The area under the receiver operating characteristic: how probably a 1 has a larger score than a 0; ties count half. Scores and
// labels 0 and 1 in one shape. NaN if one of the two labels is missing, or a score is NaN. All scores are kept and sorted; with bins, scores in [0, 1] are
// counted in so many of equal width, and those of one bin are ties.
class Auc : public Metric {
 public:
  explicit Auc(std::int64_t bins = 0);

 private:
  Shape state_shape() const override;
  void add(const Inputs& inputs) override;
  NDArray compute(const NDArray& state) const override;
  NDArray whole_state() const override;
  void merge_whole(const NDArray& state) override;
  void clear() override;
  std::int64_t bins_;
  mutable std::vector<NDArray> parts_;  // (2, n): scores and labels
};

// The mean of all elements, or, with weights that broadcast to them, the weighted one: of a loss, weighted by the size of the batch.
class MeanMetric : public Metric {
 public:
  MeanMetric();

 private:
  Shape state_shape() const override { return {2}; }
  void add(const Inputs& inputs) override;
  NDArray compute(const NDArray& state) const override;
};

// exp of the mean cross entropy of all labels. Logits (..., C) and labels (...), or a mean cross entropy, a scalar, and the number of labels
// that it is the mean of (1 if not given).
class Perplexity : public Metric {
 public:
  explicit Perplexity(std::int64_t ignore = -1);

 private:
  Shape state_shape() const override { return {2}; }
  void add(const Inputs& inputs) override;
  NDArray compute(const NDArray& state) const override;
  std::int64_t ignore_;
};

// The mean of (y - target)^2 over all elements; with `root` its root.
class MeanSquaredError : public Metric {
 public:
  explicit MeanSquaredError(bool root = false);

 private:
  Shape state_shape() const override { return {2}; }
  void add(const Inputs& inputs) override;
  NDArray compute(const NDArray& state) const override;
  bool root_;
};

// The coefficient of determination, 1 - sum (y - target)^2 / sum (target - mean)^2, of (N) or the mean of those of the columns of (N, D). If
// all targets are equal: 1 if every y is right, else 0. NaN below two rows.
class R2 : public Metric {
 public:
  R2();

 private:
  Shape state_shape() const override;
  void add(const Inputs& inputs) override;
  NDArray compute(const NDArray& state) const override;
  void merge_whole(const NDArray& state) override;
  void clear() override;
  std::int64_t columns_ = 0;  // 0: not known yet
};

// The number of insertions, deletions and replacements that turn predictions into targets (Levenshtein 1966), divided by the number of elements of
// the targets, as in word and character error rates; without `normalize` its mean over sequences. Integers, (N, S) or (S), in rows that end at their
// length, or without lengths before the first negative number.
class EditDistance : public Metric {
 public:
  explicit EditDistance(bool normalize = true);

 private:
  Shape state_shape() const override { return {3}; }
  void add(const Inputs& inputs) override;
  NDArray compute(const NDArray& state) const override;
  bool normalize_;
};

}  // namespace heddle
