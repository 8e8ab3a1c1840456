// Callback: what a program does at certain points of fit(). FitRun: the training that a callback sees.
//
//   struct Report : Callback {
//     void on_epoch_end(FitRun& run, const FitValues& values) override {
//       std::cout << run.epoch() << ": " << values.at("loss") << "\n";
//     }
//   };
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <heddle/trainer.h>

namespace heddle {

class FitRun;

// Numbers by name: "loss", "accuracy", "val_loss", "lr" ...
using FitValues = std::map<std::string, double>;

// What fit() returns: the values of each epoch.
struct History {
  std::vector<std::int64_t> epochs{};                   // numbers of the epochs, from 0
  std::map<std::string, std::vector<double>> values{};  // one for each epoch
  bool interrupted = false;                             // by Ctrl-C
  std::string stopped{};  // why it ended before its last epoch; empty: it did not
  const std::vector<double>& operator[](
      const std::string& name) const;  // throws InvalidArgument that lists the names
};

// What a callback keeps for a run that is resumed.
struct CallbackState {
  FitValues numbers{};
  std::map<std::string, std::string> texts{};
  std::map<std::string, NDArray> arrays{};
  std::map<std::string, NDArray> of_rank{};  // of which each rank has its own, such as running statistics
};

// All functions are called on the thread of fit(), in the order of FitOptions::callbacks, on every rank. An exception ends
// the training, and is fit()'s; on all ranks, but for on_batch_begin and on_batch_end, which are on one alone. None of them has to wait for ops: see FitRun::later().
class Callback {
 public:
  virtual ~Callback() = default;
  virtual void on_train_begin(FitRun& run) { (void)run; }
  virtual void on_train_end(FitRun& run) { (void)run; }  // not after an exception
  virtual void on_epoch_begin(FitRun& run) {
    (void)run;
  }  // run.batch() > 0: a resumed run goes on within an epoch
  virtual void on_epoch_end(FitRun& run, const FitValues& values) { (void)run, (void)values; }
  virtual void on_batch_begin(FitRun& run) { (void)run; }
  virtual void on_batch_end(FitRun& run) {
    (void)run;
  }  // the ops of the step are pushed; most are not done yet
  virtual void on_validation_begin(FitRun& run) { (void)run; }
  // After each on_validation_begin, also of a validation that Ctrl-C or an error ends.
  virtual void on_validation_end(FitRun& run) { (void)run; }
  virtual void on_interrupt(FitRun& run) {
    (void)run;
  }  // after Ctrl-C, between two steps; on_train_end follows
  // Names the callback's state in a checkpoint; the name of the class. Of several the order counts too.
  virtual std::string name() const;
  // Saved in checkpoints of the run, and set in a resumed run before on_train_begin. The same on all ranks, where only arrays
  // `of_rank` differ; a rank that the saved run did not have gets those of rank 0. A resume that fails sets the former state.
  virtual CallbackState state() const { return {}; }
  virtual void set_state(const CallbackState& state) { (void)state; }
  // Called when fit() has refused a batch, before the batch's error is thrown: ops of on_batch_end that failed with it have left
  // errors on arrays, whose values are those before. Clears those of the arrays of state().
  virtual void clear_errors();
};

// A callback as an argument: a shared pointer, or an object of a class derived from Callback, which is moved.
class AnyCallback {
 public:
  template <std::derived_from<Callback> C>
  AnyCallback(C callback) : pointer_(std::make_shared<C>(std::move(callback))) {}
  template <std::derived_from<Callback> C>
  AnyCallback(std::shared_ptr<C> callback) : pointer_(std::move(callback)) {}
  const std::shared_ptr<Callback>& pointer() const { return pointer_; }

 private:
  std::shared_ptr<Callback> pointer_;
};

// A training that runs, seen from a callback. Not thread-safe.
class FitRun {
 public:
  Module& net() const;
  Trainer& trainer() const;
  std::int64_t epoch() const;     // the number of this epoch, from 0
  std::int64_t epochs() const;    // how many there will be
  std::int64_t batch() const;     // how many batches of this epoch are done
  std::int64_t batches() const;   // of an epoch; -1: not known yet
  std::int64_t step() const;      // how many steps the trainer has done, in all epochs
  std::int64_t examples() const;  // how many examples of this epoch are done, of this rank
  int rank() const;
  int ranks() const;
  const History& history() const;  // of the epochs so far
  // The names of the values of an epoch, "lr" and those of the validation too.
  const std::vector<std::string>& value_names() const;

  // A scalar that nobody waits for: "batch_loss", of the last batch, or "loss" or the name of a metric, of all batches of
  // this epoch so far, of this rank; of all ranks once its steps are done, in a validation and on_epoch_end. Pushes the ops
  // that compute it. Throws InvalidArgument for another name, and before the first batch.
  NDArray value(const std::string& name) const;
  // Calls `use` with the values as of now, between two later steps, once they are computed; at the latest at a save
  // and at the end of the epoch. In the order of the calls. No step waits for them.
  void later(const std::vector<std::string>& names, std::function<void(const FitValues& values)> use);

  // Ends the training after this step, or this epoch; on all ranks, also if one alone calls it, whose reason is that of all
  // that have none.
  void stop(const std::string& reason);
  bool stopping() const;
  // Saves a checkpoint from which fit() can resume here, when all callbacks of this event have been called. All ranks call
  // it, at the same event, since each gives its part: `if (run.rank() == 0) run.save(path)` waits for ever. Rank 0 writes,
  // while the training goes on. An error ends the training on all ranks, at a later save or at the end.
  void save(const std::string& path);
  bool saving() const;  // whether a save is under way; on rank 0
  // Blocks until all saves that have begun here are done. Rethrows their errors; of several ranks it returns false for one,
  // which all ranks throw at the next save or at the end.
  bool finish_saves();
  const std::string& resumed_from() const;  // the checkpoint that the run goes on from; empty: none
  // Whether the checkpoint had a state of this callback, which is set. A callback that begins anew otherwise does not keep what it
  // has from another run.
  bool has_state(const Callback& callback) const;

 private:
  friend struct FitAccess;
  struct Impl;
  explicit FitRun(Impl& impl) : impl_(impl) {}
  Impl& impl_;
};

}  // namespace heddle
