// Datasets that are made of others: parts, sums and functions of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <heddle/data/dataset.h>

namespace heddle {

// The examples `indices` of a dataset, in that order. Throws InvalidArgument for an index out of range.
class Subset : public Dataset {
 public:
  Subset(AnyDataset dataset, std::vector<std::int64_t> indices);
  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  std::vector<ExampleArray> arrays() const override { return dataset_->arrays(); }
  Example read(std::int64_t index) const override;
  Example read_with(std::int64_t index, ExampleRandom& random) const override;
  bool gather(std::span<const std::int64_t> indices, std::span<const NDArray> batch) const override;
  std::int64_t length(std::int64_t index) const override;
  std::vector<NDArray> used_arrays() const override { return dataset_->used_arrays(); }
  bool reads_concurrently() const override { return dataset_->reads_concurrently(); }

 private:
  std::shared_ptr<const Dataset> dataset_;
  std::vector<std::int64_t> indices_;
};

// The examples of several datasets, one after the other. Their arrays have the same dtypes and numbers of axes; sizes that
// differ between the datasets are kInferred. Throws InvalidArgument.
class ConcatDataset : public Dataset {
 public:
  explicit ConcatDataset(std::vector<AnyDataset> datasets);
  std::int64_t size() const override { return ends_.back(); }
  std::vector<ExampleArray> arrays() const override { return arrays_; }
  Example read(std::int64_t index) const override;
  Example read_with(std::int64_t index, ExampleRandom& random) const override;
  std::int64_t length(std::int64_t index) const override;
  std::vector<NDArray> used_arrays() const override;
  bool reads_concurrently() const override;

 private:
  std::pair<const Dataset*, std::int64_t> find(std::int64_t index) const;
  std::vector<std::shared_ptr<const Dataset>> datasets_;
  std::vector<std::int64_t> ends_;
  std::vector<ExampleArray> arrays_;
};

// fn(example), or fn(example, random), of each example, called as read_with() is: on worker threads, several at once. `arrays`
// describes what it returns. read() gives the example as of seed 0, epoch 0.
class MapDataset : public Dataset {
 public:
  using Function = std::function<Example(Example)>;
  using RandomFunction = std::function<Example(Example, ExampleRandom& random)>;
  MapDataset(AnyDataset dataset, Function fn, std::vector<ExampleArray> arrays);
  MapDataset(AnyDataset dataset, RandomFunction fn, std::vector<ExampleArray> arrays);
  std::int64_t size() const override { return dataset_->size(); }
  std::vector<ExampleArray> arrays() const override { return arrays_; }
  Example read(std::int64_t index) const override;
  Example read_with(std::int64_t index, ExampleRandom& random) const override;
  std::int64_t length(std::int64_t index) const override { return dataset_->length(index); }
  std::vector<NDArray> used_arrays() const override { return dataset_->used_arrays(); }
  bool reads_concurrently() const override { return dataset_->reads_concurrently(); }

 private:
  std::shared_ptr<const Dataset> dataset_;
  RandomFunction fn_;
  std::vector<ExampleArray> arrays_;
};

}  // namespace heddle
