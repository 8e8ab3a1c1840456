// One step of training: forward, backward and update of one batch, or of several whose gradients add up.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <heddle/captured_step.h>
#include <heddle/communicator.h>
#include <heddle/fit.h>

#include "fit/batch_parts.h"
#include "fit/losses.h"

namespace heddle::fit_detail {

// Ends the op that looks at a loss, and poisons the gradients, so that the step changes no parameter. Of several ranks all
// get one, at the same batch: on those whose own loss is finite, rank() is another rank, else -1.
class LossNotFinite : public Error {
 public:
  explicit LossNotFinite(double loss);
  static LossNotFinite of_rank(int rank);
  int rank() const { return rank_; }

 private:
  LossNotFinite(const std::string& message, int rank);
  int rank_ = -1;
};

struct StepResult {
  Arrays losses{};  // those of BatchLoss::compute(); the first one has the error of a loss that is not finite
  Arrays outputs{};  // of the network; none if nobody needs them
};

class FitStep {
 public:
  FitStep(Module& net, Trainer& trainer, const FitOptions& options, const BatchLoss& loss,
          bool needs_outputs);
  bool is_captured() const { return captured_.has_value(); }
  // A step of as many batches as `group` has: one result for each, detached, which no later step changes.
  std::vector<StepResult> run(const std::vector<Arrays>& group, Where where);
  // Finds the leaves of the network and the trainer, whose gradients from before a step, or of what the trainer does not train,
  // count in no step; and the device of the network, to which batches are copied.
  void find_leaves();
  void clear_gradients() const;
  void split(const Arrays& batch, Arrays& inputs, Arrays& labels) const;
  // The batch where the network is.
  Arrays on_device(const Arrays& batch) const { return fit_detail::on_device(batch, device_); }

 private:
  Arrays train(const Arrays& all);
  // Adds to `checks` what the update waits for: losses that are refused if they are not finite.
  void train_batch(const Arrays& batch, Arrays& results, Arrays& checks);
  void step_if(const Arrays& checks, double grad_scale);
  void clip(std::size_t batches) const;
  Module& net_;
  Trainer& trainer_;
  const FitOptions& options_;
  const BatchLoss& loss_;
  bool needs_outputs_;
  std::size_t batch_arrays_ = 0;         // of the batches of the step that runs
  std::shared_ptr<Communicator> ranks_;  // null: this process alone
  std::size_t losses_;
  std::vector<NDArray> leaves_{};
  std::optional<Device> device_{};  // of the network; none: it has no arrays
  double share_ = 1;                // of this worker in the gradients that the store adds
  std::optional<CapturedStep> captured_{};
};

}  // namespace heddle::fit_detail
