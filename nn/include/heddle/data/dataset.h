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

}  // namespace heddle
