// Pruning in a training by fit().
//
//   Pruning pruning(net, {.sparsity = 0.8});
//   fit(net, trainer, data, {.loss = "cross_entropy", .callbacks = {KeepPruned(pruning)}});
//
//   Pruning gradual(net, {.sparsity = 0});
//   fit(net, trainer, data, {.loss = "cross_entropy", .callbacks = {GradualPruning(gradual, {.final_sparsity = 0.8, .end = 5000})}});
#pragma once

#include <utility>

#include <heddle/callback.h>
#include <heddle/pruning.h>

namespace heddle {

// Applies the masks after each step. Checkpoints of the run have the masks. fit() throws InvalidArgument for a Pruning with weights
// that its network does not have.
class KeepPruned : public Callback {
 public:
  explicit KeepPruned(Pruning pruning) : pruning_(std::move(pruning)) {}
  void on_train_begin(FitRun& run) override;
  void on_batch_end(FitRun& run) override;
  CallbackState state() const override;
  void set_state(const CallbackState& state) override;
  void clear_errors() override;

 protected:
  Pruning& pruning() { return pruning_; }

 private:
  Pruning pruning_;
};

// Also chooses new masks, so that sparsity grows over the steps of the trainer. What is 0 stays so while it grows.
class GradualPruning : public KeepPruned {
 public:
  // Throws InvalidArgument for numbers out of range, and for a Pruning with `of`.
  GradualPruning(Pruning pruning, const GradualSparsity& sparsity);
  void on_batch_end(FitRun& run) override;

 private:
  GradualSparsity sparsity_;
};

}  // namespace heddle
