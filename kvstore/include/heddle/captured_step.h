// CapturedStep: a training step that is captured as a graph, and launched for each batch.
//
//   CapturedStep step = trainer.capture([&](const std::vector<NDArray>& batch) {
//     const NDArray loss = cross_entropy(net(batch[0]), batch[1]);
//     backward(loss);
//     trainer.step();
//     return loss.detach();
//   });
//   const NDArray loss = step({images, labels});
//
// For each combination of shapes and dtypes the first call runs the function as it is, the second captures it, and later
// ones only launch the graph: the function is not called again. Training is the same, bit for bit: learning rates follow
// the schedule, generators go on, updates are counted. What else the function reads or changes in the program is as it
// was in the capture: a number, a branch, a counter. Another mode of a module (train(), autocast()), an Autocast around the
// call, other parameters that require a gradient, Trainer::set_state() and clear_errors() make it capture anew. No other trainer can step in the function.
// Launches do not add to the gradients of leaves that are not the trainer's: these are those of the last launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <vector>

#include <heddle/graph.h>
#include <heddle/ndarray.h>

namespace heddle {

class Trainer;

// Not thread-safe, as its trainer. At most kMostGraphs graphs are kept, those that were used last; each holds the memory
// of all arrays of its step.
class CapturedStep {
 public:
  static constexpr std::size_t kMostGraphs = 8;
  using Arrays = std::vector<NDArray>;
  using Function = std::function<Arrays(const Arrays& batch)>;
  using OneResult = std::function<NDArray(const Arrays& batch)>;

  // See Trainer::capture. With a dist_ store, whose requests carry the learning rate, every call runs the function as it
  // is, which the log says once.
  CapturedStep(Trainer& trainer, Function step, Where where = Where::current());
  CapturedStep(Trainer& trainer, OneResult step, Where where = Where::current());

  // Runs the step for a batch of arrays on the trainer's engine, without gradients; returns copies of what the function
  // returns, which no later call changes. Parameters with gradients already, and a FindNaN: runs the function as it is.
  // Throws Error in a capture and, when it captures, for what cannot be captured: a wait in the function, such as
  // item(). Then nothing has run, but generators have moved, and leaves that are not the trainer's may keep gradients
  // that are never computed; clear_grad() them. Throws Error inside its own function, as reset() does.
  Arrays run(const Arrays& batch, Where where = Where::current());
  // As run(), for functions with one result.
  NDArray operator()(const Arrays& batch, Where where = Where::current());

  std::size_t graphs() const;                          // how many graphs it keeps now
  std::int64_t captures() const { return captures_; }  // how often it has captured
  // Forgets all graphs: after a change, in what the function reads, that calls do not see.
  void reset();

 private:
  struct Entry {
    std::vector<std::int64_t> signature;
    Graph graph{};
    Arrays batch{}, results{};  // the arrays that the graph reads and writes; no batch: not captured yet
    std::vector<std::size_t> changed{};  // parameters that the function changes after step()
    bool captured = false;
  };
  void check(const Arrays& batch, Where where) const;
  void check_not_running() const;
  std::vector<std::int64_t> signature(const Arrays& batch) const;
  Entry* find(const std::vector<std::int64_t>& signature);
  Arrays run_now(const Arrays& batch, Where where);
  Entry capture(std::vector<std::int64_t> signature, const Arrays& batch, Where where);
  Arrays launch(const Entry& entry, const Arrays& batch, Where where) const;

  Trainer* trainer_;
  Function step_;
  bool always_now_ = false;   // whether no call captures
  bool running_ = false;      // whether the function runs now
  std::uint64_t resets_ = 0;  // the trainer's count when the graphs were captured
  std::int64_t captures_ = 0;
  std::list<Entry> entries_;  // the one used last comes first
};

}  // namespace heddle
