// Trainer: parameters, an optimizer in a store, and a learning rate for every step.
//
//   Trainer trainer(net.parameters(), {.optimizer = "sgd", .params = {{"lr", 0.1}, {"momentum", 0.9}}});
//   backward(cross_entropy(net(images), labels));
//   trainer.step();
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <heddle/kvstore.h>
#include <heddle/layers.h>
#include <heddle/schedule.h>

namespace heddle {

struct TrainerOptions {
  std::string optimizer = "sgd";
  OptimizerParams params{};
  Schedule schedule{};               // empty: the optimizer's lr at every step
  std::shared_ptr<KVStore> store{};  // with no key in use; null: a "local" one
};

// Not thread-safe. Changes the parameters in place, by ops; never blocks but for its state.
class Trainer {
 public:
  // Throws InvalidArgument for an empty list and for whatever the optimizer and the store refuse.
  explicit Trainer(std::vector<Parameter> parameters, TrainerOptions options = {},
                   Where where = Where::current());
  // One list a device, of one model: gradients are summed, and all devices start from the first one's values.
  explicit Trainer(std::vector<std::vector<Parameter>> replicas, TrainerOptions options = {},
                   Where where = Where::current());

  // Updates every parameter in order by its gradient, whole or row-sparse, times grad_scale (1 / devices for the mean over
  // replicas), and clears the gradients. It goes on from the parameters as they are: whatever changed one since the last step (of
  // several replicas, the first that was changed) counts. Throws InvalidArgument, before any update, naming a
  // parameter without a gradient. What grad() has returned may be overwritten from then on, after
  // clear_errors() too: copy what is to be kept.
  void step(double grad_scale = 1, Where where = Where::current());

  std::int64_t steps() const { return steps_; }  // done so far
  double learning_rate() const;                  // of the next step
  const std::vector<Parameter>& parameters() const { return replicas_[0]; }
  KVStore& store() const { return *options_.store; }  // whose keys are the parameters' places in the list

  // To go on after an error, say a bad batch, that a wait reported: removes the poison of the parameters, of what is
  // stored and of the optimizer's state, and drops the gradients. Steps that were skipped changed nothing and no longer
  // count, so training goes on as if the bad batch had never been. Blocks for the count of steps.
  void clear_errors(Where where = Where::current());

  // For checkpoints: the count of steps, "steps", and the optimizer's arrays by the parameters' names, as
  // "state.0.weight.velocity" (of a second parameter of one name "state.0.weight#2.velocity"): the parameters of another run
  // may be listed in another order. Setting it also takes the parameters' current values over into the store; blocks for
  // the counts. Throws InvalidArgument, before anything is changed, saying which array is missing, is one too many or is
  // not like its parameter. Takes what earlier versions saved by place, "optimizer.0.velocity", too.
  std::map<std::string, NDArray> state() const;
  void set_state(const std::map<std::string, NDArray>& state, Where where = Where::current());

 private:
  void init_store();
  void find_memory();
  void lend_memory() const;
  void check_replicas() const;
  void remember_versions();
  void take_over_changes();
  std::int64_t updates() const;
  void check_complete(const std::map<std::string, NDArray>& optimizer, std::int64_t steps) const;
  // Of one parameter, by replica: rows if all are row-sparse.
  struct Gradients {
    std::vector<NDArray> whole{};
    std::vector<RowSparse> rows{};
  };
  Gradients gradients(std::size_t index) const;
  void exchange(const std::vector<Gradients>& gradients, const UpdateOptions& update);
  void exchange_list(const std::vector<Gradients>& gradients, const UpdateOptions& update);
  std::vector<NDArray> values(std::size_t index) const;
  std::vector<std::vector<Parameter>> replicas_;
  TrainerOptions options_;
  std::vector<NDArray> memory_;  // for the parameters' gradients, see lend_gradient_memory; undefined: none
  // Of the parameters, replica by replica, when they equalled the store's.
  std::vector<std::uint64_t> versions_;
  std::int64_t steps_ = 0;
  std::int64_t steps_before_updates_ = 0;  // steps_ less the optimizer's own count of updates
};

}  // namespace heddle
