// Where fit(), evaluate() and predict() take batches from, and what is in a batch.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <heddle/fit.h>

namespace heddle::fit_detail {

using Arrays = std::vector<NDArray>;

// The batches of `data`; arrays are cut as `options` says. Throws InvalidArgument if there is neither.
inline std::shared_ptr<Batches> batches_of(const std::string& call, const FitData& data,
                                           const ArrayBatchesOptions& options) {
  if (data.batches) return data.batches;
  if (data.arrays.empty()) throw InvalidArgument(call + ": there are no data; want arrays, or a Batches");
  return std::make_shared<ArrayBatches>(data.arrays, options);
}

// The inputs and labels of a batch. Throws InvalidArgument if no input is left.
inline void split_batch(const std::string& call, const Arrays& batch, std::size_t labels, Arrays& inputs,
                        Arrays& wanted) {
  if (batch.size() <= labels)
    throw InvalidArgument(call + ": a batch has " + std::to_string(batch.size()) + " array" +
                          (batch.size() == 1 ? "" : "s") + "; want the inputs and " + std::to_string(labels) +
                          " label" + (labels == 1 ? "" : "s") + " behind them");
  const auto cut = batch.end() - static_cast<std::ptrdiff_t>(labels);
  inputs.assign(batch.begin(), cut);
  wanted.assign(cut, batch.end());
}

// The arrays on `device`, to which ops copy those that are elsewhere; none: as they are.
inline Arrays on_device(const Arrays& arrays, const std::optional<Device>& device) {
  Arrays all;
  for (const NDArray& one : arrays) {
    const bool stays = !one.defined() || !device || one.device() == *device;
    all.push_back(stays ? one : one.detach().copy_to(*device));
  }
  return all;
}
inline NDArray on_host(const NDArray& array) {
  return array.device() == cpu() ? array : array.detach().copy_to(cpu());
}

inline void check_labels(const std::string& call, int labels) {
  if (labels >= -1) return;
  throw InvalidArgument(call + ": labels is " + std::to_string(labels) + "; want 0 or more, or -1");
}

inline std::int64_t rows_of(const Arrays& batch) {
  return batch.empty() || batch[0].ndim() == 0 ? 1 : batch[0].shape()[0];
}

}  // namespace heddle::fit_detail
