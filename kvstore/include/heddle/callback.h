// Callback: what a program does at certain points of fit().
//
//   struct Report : Callback {
//     void on_epoch_end(FitRun& run, const FitValues& values) override {
//       std::cout << run.epoch() << ": " << values.at("loss") << "\n";
//     }
//   };
#pragma once

#include <concepts>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <heddle/fit_run.h>
#include <heddle/history.h>

namespace heddle {

// What a callback keeps for a run that is resumed. An undefined array is not saved.
struct CallbackState {
  FitValues numbers{};
  std::map<std::string, std::string> texts{};
  std::map<std::string, NDArray> arrays{};
  std::map<std::string, NDArray> of_rank{};  // of which each rank has its own, such as running statistics
};

// All functions are called on the thread of fit(), in the order of FitOptions::callbacks, on every rank. An exception ends
// the training, and is fit()'s; on all ranks, but for on_batch_begin and on_batch_end, which are on one alone. None of them has
// to wait for ops: see FitRun::later().
class Callback {
 public:
  virtual ~Callback() = default;
  virtual void on_train_begin(FitRun& run) { (void)run; }
  // After the last step, and after on_interrupt, before any callback's on_train_end, which may change the weights: FitRun::save() has
  // those of the last step here. Not after an exception.
  virtual void on_last_step(FitRun& run) { (void)run; }
  // The files of all saves are complete. Not after an exception.
  virtual void on_train_end(FitRun& run) { (void)run; }
  // run.batch() > 0: a resumed run goes on within an epoch.
  virtual void on_epoch_begin(FitRun& run) { (void)run; }
  virtual void on_epoch_end(FitRun& run, const FitValues& values) { (void)run, (void)values; }
  virtual void on_batch_begin(FitRun& run) { (void)run; }
  // The ops of the step are pushed; most are not done yet.
  virtual void on_batch_end(FitRun& run) { (void)run; }
  virtual void on_validation_begin(FitRun& run) { (void)run; }
  // After each on_validation_begin, also of a validation that Ctrl-C or an error ends, of another callback too.
  virtual void on_validation_end(FitRun& run) { (void)run; }
  // After Ctrl-C, between two steps; on_last_step and on_train_end follow.
  virtual void on_interrupt(FitRun& run) { (void)run; }
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

}  // namespace heddle
