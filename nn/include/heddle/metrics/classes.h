// Metrics of classes. Predictions of classes are scores (..., C), of which the largest counts, or classes themselves,
// integers in the shape of the labels. Floating predictions in the shape of the labels are binary, one each: above a threshold they are 1.
#pragma once

#include <cstdint>

#include <heddle/layer.h>
#include <heddle/metric.h>

namespace heddle {

// How predictions become classes, and which do not count.
struct MetricOptions {
  double threshold = 0.5;            // of binary predictions; 0 for logits
  std::int64_t ignore = -1;          // elements with this label do not count
  std::int64_t classes = kInferred;  // number of classes, or of the columns of binary predictions
};

// The part of the predictions that are right.
class Accuracy : public Metric {
 public:
  explicit Accuracy(MetricOptions options = {});

 private:
  Shape state_shape() const override { return {2}; }
  void add(const Inputs& inputs) override;
  NDArray compute(const NDArray& state) const override;
  MetricOptions options_;
};

// The part of the labels that are among the k classes with the largest scores (..., C).
class TopKAccuracy : public Metric {
 public:
  explicit TopKAccuracy(std::int64_t k = 5, std::int64_t ignore = -1);

 private:
  Shape state_shape() const override { return {2}; }
  void add(const Inputs& inputs) override;
  NDArray compute(const NDArray& state) const override;
  std::int64_t k_, ignore_;
};

// How often each label (row) was predicted as each class (column): (C, C). Binary predictions have two classes.
class ConfusionMatrix : public Metric {
 public:
  enum class Normalize { none, labels, predictions, all };  // the sums of rows, of columns, or of all are 1
  explicit ConfusionMatrix(MetricOptions options = {}, Normalize normalize = Normalize::none);

 private:
  Shape state_shape() const override;
  void add(const Inputs& inputs) override;
  NDArray compute(const NDArray& state) const override;
  void merge_whole(const NDArray& state) override;
  void clear() override;
  MetricOptions options_;
  Normalize normalize_;
  std::int64_t given_classes_;  // options_.classes before any batch
};

// macro: the mean over the classes that occur in labels or predictions; micro: of the sums over all; none: (C), NaN for classes that
// do not occur.
enum class Average { macro, micro, none };

// Counts for each class, or each column of binary predictions (..., L), how often it was right, predicted and the label.
class ClassRates : public Metric {
 protected:
  ClassRates(const char* name, Average average, MetricOptions options);

 private:
  Shape state_shape() const override;
  void add(const Inputs& inputs) override;
  NDArray compute(const NDArray& state) const override;
  virtual NDArray rate(const NDArray& right, const NDArray& found, const NDArray& wanted) const = 0;
  void merge_whole(const NDArray& state) override;
  void clear() override;
  Average average_;
  MetricOptions options_;
  std::int64_t given_classes_;  // options_.classes before any batch
};
// The part of what was predicted that is right.
class Precision : public ClassRates {
 public:
  explicit Precision(Average average = Average::macro, MetricOptions options = {});

 private:
  NDArray rate(const NDArray& right, const NDArray& found, const NDArray& wanted) const override;
};
// The part of the labels that was found.
class Recall : public ClassRates {
 public:
  explicit Recall(Average average = Average::macro, MetricOptions options = {});

 private:
  NDArray rate(const NDArray& right, const NDArray& found, const NDArray& wanted) const override;
};
// The harmonic mean of precision and recall.
class F1 : public ClassRates {
 public:
  explicit F1(Average average = Average::macro, MetricOptions options = {});

 private:
  NDArray rate(const NDArray& right, const NDArray& found, const NDArray& wanted) const override;
};

}  // namespace heddle
