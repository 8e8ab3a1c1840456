// Datasets: examples by their number, which a Loader (data/loader.h) makes batches of.
//
//   class Squares : public Dataset {
//     std::int64_t size() const override { return 100; }
//     std::vector<ExampleArray> arrays() const override { return {{DType::f32, {}}}; }
//     Example read(std::int64_t index) const override { return {full({}, index * index)}; }
//   };
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <heddle/data/example_random.h>
#include <heddle/layer.h>  // kInferred
#include <heddle/ndarray.h>

namespace heddle {

// The arrays of one example, such as an image and its label, without an axis for the batch.
using Example = std::vector<NDArray>;

// What one array of all examples has in common.
struct ExampleArray {
  DType dtype = DType::f32;
  Shape shape = {};  // a size that differs between examples is kInferred
};

// A second base for errors of read() that LoaderOptions::skip_bad does not pass over, such as the wish to end the program.
struct NeverSkipped {
  virtual ~NeverSkipped() = default;
};

// A list of examples. Loaders call the const members on worker threads, several at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::int64_t size() const = 0;
  virtual std::vector<ExampleArray> arrays() const = 0;

  // Example number `index`, 0 to size() - 1; the same one at each call. Runs in an op. Arrays may be of ops that are not
  // done yet. An error is that of the batch; it names what could not be read.
  virtual Example read(std::int64_t index) const = 0;

  // What loaders call: the example in an epoch, for augmentation of one's own, which draws from `random`. The numbers follow
  // from LoaderOptions::seed, the epoch and the example alone, so that a run which is resumed reads the same. Unless
  // overridden: read(index). An override in a class whose base has a gather() overrides that too.
  virtual Example read_with(std::int64_t index, ExampleRandom& random) const;

  // Writes the examples `indices` along axis 0 of `batch`, whose arrays have the shapes of arrays(). Returns false, and has
  // written nothing, unless that is faster than to read() each: then the Loader reads.
  virtual bool gather(std::span<const std::int64_t> indices, std::span<const NDArray> batch) const;

  // The length of an example, for batches of similar lengths, known without reading it; -1: not known.
  virtual std::int64_t length(std::int64_t index) const;

  // Arrays made elsewhere that read() and gather() use: ops that change them later wait for batches made before.
  virtual std::vector<NDArray> used_arrays() const;

  // Whether several threads at once read faster than one.
  virtual bool reads_concurrently() const { return true; }
};

// A dataset as an argument: a shared pointer, or an object of a class derived from Dataset, which is moved.
class AnyDataset {
 public:
  template <std::derived_from<Dataset> D>
  AnyDataset(D dataset) : pointer_(std::make_shared<D>(std::move(dataset))) {}
  template <std::derived_from<Dataset> D>
  AnyDataset(std::shared_ptr<D> dataset) : pointer_(std::move(dataset)) {}
  AnyDataset(std::shared_ptr<const Dataset> dataset) : pointer_(std::move(dataset)) {}
  // Throws InvalidArgument, which begins with the name of the caller, for a null pointer.
  const std::shared_ptr<const Dataset>& get(const char* caller) const;

 private:
  std::shared_ptr<const Dataset> pointer_;
};

// Arrays in memory, or mapped files (map_npy): example i is element i along axis 0 of each array. A batch is gathered
// straight into its memory.
class ArrayDataset : public Dataset {
 public:
  // Arrays on cpu(), of one size along axis 0. Throws InvalidArgument.
  explicit ArrayDataset(std::vector<NDArray> arrays, Where where = Where::current());
  std::int64_t size() const override { return size_; }
  std::vector<ExampleArray> arrays() const override;
  Example read(std::int64_t index) const override;
  bool gather(std::span<const std::int64_t> indices, std::span<const NDArray> batch) const override;
  std::vector<NDArray> used_arrays() const override { return arrays_; }

 private:
  std::vector<NDArray> arrays_;
  std::int64_t size_;
};

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
