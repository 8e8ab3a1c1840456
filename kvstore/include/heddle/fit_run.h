// FitRun: the training by fit() that a callback sees.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <heddle/history.h>
#include <heddle/trainer.h>

namespace heddle {

class Callback;

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
  // Whether FitOptions::resume names a path. Without a file there the run is at its beginning, and resumed_from() is empty.
  bool resumes() const;
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
