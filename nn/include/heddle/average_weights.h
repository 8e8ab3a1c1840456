// AverageWeights: exponential moving averages of parameters, which often do better in evaluation than the
// parameters.
//
//   AverageWeights average(net.parameters(), {.decay = 0.999});
//   trainer.step();
//   average.update();                     // after each step: one op for all parameters
//   {
//     const UseAverages now(average);     // the network computes with the averages until the end of the block
//     evaluate(net);
//   }
#pragma once

#include <map>
#include <string>
#include <vector>

#include <heddle/module.h>

namespace heddle {

struct AverageOptions {
  double decay = 0.999;  // in [0, 1): share of the average that stays in an update
  // true: the decay of update n, from 0, is (1 + n) / (10 + n) while that is less, so that the first values
  // are soon forgotten.
  bool warm_up = false;
};

// Averages begin as the values of the parameters. Not thread-safe.
class AverageWeights {
 public:
  // Parameters, or net.state() to average running statistics too: contiguous arrays of f32 or f64, with names
  // of their own, on one device. Throws InvalidArgument.
  explicit AverageWeights(std::vector<Parameter> parameters, const AverageOptions& options = {},
                          Where where = Where::current());

  // average += (1 - decay) * (parameter - average). Averages follow parameters that Module::to() has moved, in update() and
  // swap(), which then wait. Throws InvalidArgument while swapped, and for parameters on several devices.
  void update(Where where = Where::current());

  // Exchanges the values of parameters and averages in place; a second call exchanges them back. One op. No
  // step of a trainer in between. A trainer whose store has several workers takes over the change of
  // parameters by a call of all: then swap on all workers.
  void swap(Where where = Where::current());
  bool swapped() const { return swapped_; }

  // The averages by the names of the parameters, while swapped the parameters' own values: handles on the
  // live arrays.
  const std::vector<Parameter>& averages() const { return averages_; }

  // For checkpoints: "updates", and "average.NAME" for each parameter: handles on the live arrays. Put them
  // into Checkpoint::arrays, and loading fills them. Throws InvalidArgument while swapped.
  std::map<std::string, NDArray> state() const;
  // Copies arrays that state() gave earlier. Throws InvalidArgument, before anything is changed, naming an
  // array that is missing, unknown or unlike its parameter.
  void set_state(const std::map<std::string, NDArray>& state, Where where = Where::current());

 private:
  void refuse_swapped(const char* call) const;
  void follow(const char* call);
  std::vector<NDArray> values_, of_averages_;  // the arrays, without names
  std::vector<Parameter> averages_;
  NDArray updates_;  // i64, one element on cpu(): counted by the updates
  AverageOptions options_;
  bool swapped_ = false;
};

// The parameters have the averages' values while this object lives.
class UseAverages {
 public:
  explicit UseAverages(AverageWeights& average, Where where = Where::current());
  ~UseAverages();
  UseAverages(const UseAverages&) = delete;
  UseAverages& operator=(const UseAverages&) = delete;

 private:
  AverageWeights& average_;
  Where where_;
};

}  // namespace heddle
