// The losses and metrics of an epoch, accumulated batch by batch by ops.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <heddle/communicator.h>
#include <heddle/fit.h>

#include "fit/losses.h"

namespace heddle::fit_detail {

class EpochValues {
 public:
  // Throws InvalidArgument for metrics without a place, and for names that come twice.
  EpochValues(const std::string& call, const BatchLoss& loss, std::vector<FitMetric> metrics);
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<FitMetric>& metrics() const { return metrics_; }
  bool needs_outputs() const { return !metrics_.empty(); }
  bool has_batches() const { return batches_ > 0; }

  // Adds a batch of `rows` examples. `losses` are those of BatchLoss::compute(), detached.
  void add(const std::vector<NDArray>& losses, const std::vector<NDArray>& outputs,
           const std::vector<NDArray>& labels, std::int64_t rows);
  void reset();
  // Throws InvalidArgument for a metric whose states ranks cannot add up.
  void check_of_ranks() const;
  // The sum over the ranks, in place. All ranks call it, each after a batch.
  void reduce(Communicator& ranks);
  // The same where a rank may have no batch, and not know the sizes of its metrics. False if no rank has one. Waits.
  bool reduce_any(Communicator& ranks);
  // A scalar f64 for each name, of all batches so far, which nobody waits for.
  std::vector<NDArray> results() const;
  NDArray result(std::size_t index) const;  // of names()[index]

  // For checkpoints within an epoch: the live arrays.
  std::vector<NDArray> state() const;
  std::size_t state_size() const { return (losses_ > 0 ? 1 : 0) + metrics_.size(); }
  void set_state(const std::vector<NDArray>& state);

 private:
  NDArray mean_loss(std::size_t index) const;
  void check_metric(const FitMetric& metric) const;
  std::string call_;
  std::size_t losses_ = 0;
  std::vector<FitMetric> metrics_;
  std::vector<std::string> names_;
  NDArray sums_{};  // f64: examples, and the sum of each loss times the examples of its batch
  std::int64_t batches_ = 0;
};

// Reads scalars: waits for them.
FitValues read_values(const std::vector<std::string>& names, const std::vector<NDArray>& arrays);

}  // namespace heddle::fit_detail
