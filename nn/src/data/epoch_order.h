// Which examples are in which batch of an epoch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <heddle/data/loader.h>

namespace heddle::data_detail {

// The order of one epoch over all ranks. It follows from the options and the epoch's number.
class EpochOrder {
 public:
  // `lengths` of all examples are used with bucket_by_length.
  EpochOrder(std::int64_t size, std::span<const std::int64_t> lengths, const LoaderOptions& options,
             std::int64_t epoch);
  // The examples of batch `batch` on the options' rank.
  std::vector<std::int64_t> indices(std::int64_t batch) const;

 private:
  void sort_by_length(std::span<const std::int64_t> lengths, const LoaderOptions& options,
                      std::int64_t epoch);
  std::int64_t batch_, rank_, ranks_;
  std::vector<std::int64_t> order_;    // examples of all ranks: a multiple of ranks_
  std::vector<std::int64_t> batches_;  // begin of each batch of all ranks in order_, in the order of batches
};

// Examples of an epoch on each rank, and batches.
std::int64_t examples_of_rank(std::int64_t size, const LoaderOptions& options);
std::int64_t batches_of_epoch(std::int64_t size, const LoaderOptions& options);

}  // namespace heddle::data_detail
