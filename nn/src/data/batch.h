// One batch: what its op does.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include <heddle/data/loader.h>

#include "data/epoch_order.h"

namespace heddle::data_detail {

// What ops read of their loader, which may be gone.
struct BatchSource {
  std::shared_ptr<const Dataset> dataset;
  LoaderOptions options;
  std::vector<ExampleArray> read;    // arrays of examples as they are read
  std::vector<ExampleArray> arrays;  // after augmentation
  std::vector<NDArray> used;
  std::vector<std::int64_t> lengths;  // of all examples, with bucket_by_length
  bool fixed = true;                  // all sizes are known
  mutable std::atomic<std::int64_t> skipped{0};
};

struct PendingBatch {
  std::int64_t epoch = 0, number = 0;
  std::vector<std::int64_t> indices;
  std::vector<NDArray> outputs;  // made with the push if sizes are fixed, else by the op
  std::vector<NDArray> copies;   // of the outputs, on LoaderOptions::device; none: not copied yet
  Var done;                      // of a batch whose sizes vary
  Engine* engine = nullptr;
  std::atomic<bool> dropped{false};  // nobody will ask for it
  std::atomic<bool> reads{false};    // its op uses the dataset
};

// Reads the examples and writes or makes the outputs.
void fill_batch(const BatchSource& source, PendingBatch& batch);

// The sizes of `shape` that vary: numbers of axes.
std::vector<int> varying_axes(const Shape& shape);

}  // namespace heddle::data_detail
