// Pruning: weights of small magnitude become 0, and stay 0 while the training goes on (Han et al., NeurIPS'15).
//
//   Pruning pruning(net, {.sparsity = 0.8});
//   trainer.step();
//   pruning.apply();  // after each step; fit() does it by the callback KeepPruned
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <heddle/module.h>

namespace heddle {

struct PruningOptions {
  double sparsity = 0.5;  // share of the weights that become 0, in [0, 1]; without a meaning with `of`
  bool global = true;     // the smallest of all arrays together; false: as many of each array
  // Not 0: of each `of` neighbours along the inputs (of a group) the `keep` largest stay, in each array: 2 of 4, for example.
  std::int64_t keep = 0, of = 0;
  // Paths of the parameters; empty: those of two axes or more of the library's layers, but for embeddings and positions. No biases, no norms.
  std::vector<std::string> only{};
};

struct PruningReport {
  struct Row {
    std::string path;
    std::int64_t zeros = 0, size = 0;
  };
  std::vector<Row> rows{};
  std::int64_t zeros() const, size() const;
  double sparsity() const;        // of all rows together
  std::string to_string() const;  // a line for each row, and their sum
};

// A copy shares the masks. Not thread-safe.
class Pruning {
 public:
  // Chooses what becomes 0, as prune() does. Throws InvalidArgument for options out of range, for a path that is no parameter, and for inputs
  // that `of` does not divide.
  explicit Pruning(Module& net, const PruningOptions& options = {}, Where where = Where::current());

  // Chooses anew: sets the masks for this sparsity and applies them. Weights that are 0 are the first; of equal ones those in front; NaN counts
  // as infinite. Does not block.
  void prune(double sparsity, Where where = Where::current());
  // Makes 0 what the masks have 0 for, NaN and infinite weights too. Masks follow weights that Module::to() has moved: then it waits.
  // May be captured in a graph.
  void apply(Where where = Where::current());
  // Takes what is 0 now as what is to stay 0: for a network that was pruned before, and loaded.
  void keep_zeros(Where where = Where::current());

  // Of zeros and ones, in the dtype of the weight; by the paths of the weights. Handles on the live arrays.
  const std::vector<Parameter>& masks() const { return masks_; }
  // For checkpoints: the masks, as bool. set_state() throws InvalidArgument, before anything is changed, naming a mask that is missing,
  // unlike its weight, or not bool.
  std::map<std::string, NDArray> state(Where where = Where::current()) const;
  void set_state(const std::map<std::string, NDArray>& state, Where where = Where::current());
  const PruningOptions& options() const { return options_; }
  // The path of the first weight that is no parameter of the module, as after its layer was replaced; empty: there is none.
  std::string missing_in(const Module& net) const;
  PruningReport report(Where where = Where::current()) const;  // counts zeros of the weights; waits

 private:
  void follow();
  void set_masks(const std::vector<NDArray>& masks);
  PruningOptions options_;
  std::vector<NDArray> weights_{};
  std::vector<int> input_axes_{};
  std::vector<Parameter> masks_{};
};

// Pruning(net, options).report(), for a network that is not trained any more.
PruningReport prune(Module& net, const PruningOptions& options = {}, Where where = Where::current());

// How sparsity grows: fast at first, then slowly (Zhu and Gupta, ICLR workshop 2018): final + (initial - final) * (1 - t)^3, where t goes
// from 0 to 1 between the steps `begin` and `end`.
struct GradualSparsity {
  double final_sparsity = 0.8, initial_sparsity = 0;
  std::int64_t begin = 0, end = 1000, every = 100;  // steps; it changes every so many
  double at(std::int64_t step) const;
};

}  // namespace heddle
