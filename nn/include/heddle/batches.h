// Batches: where a training loop takes its arrays from, batch by batch and epoch by epoch.
#pragma once

#include <cstdint>
#include <vector>

#include <heddle/ndarray.h>

namespace heddle {

// The batches of each epoch, in order. What an epoch gives depends on its number alone, so that a run which stopped within
// an epoch goes on at the same batch. For one thread at a time.
class Batches {
 public:
  virtual ~Batches() = default;

  // Number of batches of an epoch; -1: not known before its end.
  virtual std::int64_t size() const = 0;

  // next() gives the batch number `first` of epoch `epoch`, both from 0, and those behind it.
  virtual void start(std::int64_t epoch, std::int64_t first = 0) = 0;

  // The arrays of the next batch, such as {images, labels}, each with the batch along axis 0; no arrays after the last one.
  // May return before they are computed.
  virtual std::vector<NDArray> next() = 0;
};

}  // namespace heddle
