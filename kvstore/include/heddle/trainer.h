// Trainer: parameters, an optimizer in a store, and a learning rate for every step.
//
//   Trainer trainer(net.parameters(), {.optimizer = "sgd", .params = {{"lr", 0.1}, {"momentum", 0.9}}});
//   backward(cross_entropy(net(images), labels));
//   trainer.step();
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <heddle/captured_step.h>
#include <heddle/kvstore.h>
#include <heddle/layers.h>
#include <heddle/loss_scaler.h>
#include <heddle/schedule.h>
#include <heddle/step_memory.h>

namespace heddle {

// Factors of the learning rate and of weight_decay for some parameters, such as {.max_axes = 1, .weight_decay
// = 0} for biases and the weights of normalisations.
struct ParameterGroup {
  std::string pattern = "*";  // of names; * stands for any text, ? for a character
  int max_axes = -1;          // only parameters with at most so many axes; below 0: all
  double lr = 1, weight_decay = 1;
};

struct TrainerOptions {
  std::string optimizer = "sgd";
  OptimizerParams params{};
  Schedule schedule{};               // empty: the optimizer's lr at every step
  std::shared_ptr<KVStore> store{};  // a store without keys; null: a "local" one
  // The first group that a parameter fits counts; without one its factors are 1. Factors of weight_decay are
  // not for "dist" stores, whose servers have one weight_decay for all values.
  std::vector<ParameterGroup> groups{};
  // Of the losses: step() divides gradients by its scale; one with inf or NaN changes nothing. Not for "dist" stores or replicas.
  std::optional<LossScaler> scaler{};
};

// Updates parameters by their gradients, in place, by engine ops. Not thread-safe. Blocks where the store blocks, and in
// state(), set_state() and clear_errors().
class Trainer {
 public:
  // Throws InvalidArgument for an empty list, what the optimizer and the store refuse, and a group of no parameter.
  explicit Trainer(std::vector<Parameter> parameters, TrainerOptions options = {},
                   Where where = Where::current());
  // `replicas`: the parameters of one model on each device, which start from those of the first one. Gradients are summed.
  explicit Trainer(std::vector<std::vector<Parameter>> replicas, TrainerOptions options = {},
                   Where where = Where::current());

  // Updates every parameter by its gradient, whole or row-sparse, times grad_scale (1 / devices for the mean over replicas), and
  // clears the gradients. Changes of a parameter since the last step are kept; if several replicas were changed, those of the
  // first one. Throws InvalidArgument, before any update, naming a parameter without a gradient. Arrays that grad() returned
  // before may be overwritten after step() or clear_errors(): copy what is to be kept.
  void step(double grad_scale = 1, Where where = Where::current());
  // The same with a factor that ops compute: one element of f32 or f64, read when the updates run, so at each launch
  // of a captured step. For "local" and "allreduce" stores.
  void step(const NDArray& grad_scale, Where where = Where::current());

  // A step that runs as a captured graph (captured_step.h): step(batch) computes a loss, or a list of results, of a list
  // of arrays, and calls backward() and this trainer's step(). The trainer must stay where it is, and outlive the result.
  CapturedStep capture(CapturedStep::OneResult step, Where where = Where::current()) {
    return CapturedStep(*this, std::move(step), where);
  }
  CapturedStep capture(CapturedStep::Function step, Where where = Where::current()) {
    return CapturedStep(*this, std::move(step), where);
  }

  std::int64_t steps() const { return steps_; }  // number of steps done so far
  double learning_rate() const;                  // learning rate of the next step
  const Schedule& schedule() const { return options_.schedule; }
  const std::optional<LossScaler>& scaler() const { return options_.scaler; }
  void set_schedule(Schedule schedule);  // for later steps, launches of captured steps too; not empty
  const std::vector<Parameter>& parameters() const { return replicas_[0]; }
  KVStore& store() const { return *options_.store; }  // its keys are the indices of parameters()

  // Recovers from an error that a wait reported, such as a bad batch: clears the errors of parameters, stored values and
  // optimizer state, and discards the gradients. Steps that failed changed nothing and no longer count. Blocks.
  void clear_errors(Where where = Where::current());

  // For checkpoints: the count of steps as "steps", a scaler's state as "scaler.scale" and so on, and the optimizer's arrays by
  // parameter name, such as "state.0.weight.velocity" (for a second parameter of the same name "state.0.weight#2.velocity"), so
  // another run may have its parameters in another order. Setting also assigns the parameters' current values to the store; it
  // blocks to read counts. Throws InvalidArgument, before anything is changed, naming an array that is missing, unknown or unlike
  // its parameter, on all ranks of an "allreduce" store. Accepts state saved by index, "optimizer.0.velocity". check_state()
  // throws what one worker alone can tell, and sets nothing.
  std::map<std::string, NDArray> state() const;
  void set_state(const std::map<std::string, NDArray>& state, Where where = Where::current());
  void check_state(const std::map<std::string, NDArray>& state, Where where = Where::current()) const;

 private:
  friend CapturedStep;
  void update_all(UpdateOptions update);
  void init_store();
  void find_memory();
  void lend_memory() const;
  void check_replicas() const;
  void remember_versions();
  void take_over_changes();
  // The places in versions_ of the parameters that have changed since then. In a capture only the first change
  // of a storage counts in each launch, so the captured step calls mark_changed() after each.
  std::vector<std::size_t> changed() const;
  void mark_changed(const std::vector<std::size_t>& indices);
  static const Trainer*& capturing();  // whose captured step this thread captures now; null: none
  void check_scaler() const;
  void check_rates(double lr) const;
  void check_update(const UpdateOptions& update) const;
  std::int64_t counted_steps() const;
  void check_complete(const std::map<std::string, NDArray>& optimizer, std::int64_t steps) const;
  // The gradients of one parameter, one per replica: `rows` if all are row-sparse, else `whole`.
  struct Gradients {
    std::vector<NDArray> whole{};
    std::vector<RowSparse> rows{};
  };
  Gradients gradients(std::size_t index) const;
  void exchange_scaled(const std::vector<Gradients>& gradients, const UpdateOptions& update);
  void exchange_all(const std::vector<Gradients>& gradients, const UpdateOptions& update);
  void exchange(const std::vector<Gradients>& gradients, const UpdateOptions& update);
  void exchange_list(const std::vector<Gradients>& gradients, const UpdateOptions& update);
  UpdateOptions update_of(std::size_t index, const UpdateOptions& all) const;
  void assign_groups(double weight_decay);
  std::vector<NDArray> values(std::size_t index) const;
  bool has_gradients() const;
  void forget_capture(std::int64_t steps);  // what the failed capture of a step has left behind
  std::vector<std::vector<Parameter>> replicas_;
  TrainerOptions options_;
  bool needs_whole_ = false;           // whether the optimizer refuses row-sparse gradients
  std::vector<std::size_t> group_of_;  // the group of each parameter; groups.size(): none
  std::vector<NDArray> memory_;  // gradient memory by parameter, see lend_gradient_memory; undefined: none
  // Storage versions of the parameters, replica by replica, when they last equalled the stored values.
  std::vector<std::uint64_t> versions_;
  std::shared_ptr<const void> token_;  // of this trainer, by which the scaler knows it
  std::int64_t steps_ = 0;
  std::uint64_t resets_ = 0;               // how often the state was replaced, or cleared of errors
  std::int64_t steps_before_updates_ = 0;  // steps_ minus counted_steps()
};

// memory_report() of a training step (step_memory.h), with the state of this trainer's optimizer.
inline StepMemory memory_report(Module& net, const Trainer& trainer, const std::function<void()>& step,
                                Where where = Where::current()) {
  return memory_report(
      net, [&trainer] { return trainer.state(); }, step, where);
}

}  // namespace heddle
