// fit: trains a network; evaluate and predict use it.
//
//   const History history = fit(net, trainer, {images, labels}, {.loss = "cross_entropy", .metrics = {"Accuracy"},
//                                                                .epochs = 5, .validation = {test_images, test_labels}});
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <heddle/array_batches.h>
#include <heddle/callback.h>
#include <heddle/callbacks.h>
#include <heddle/communicator.h>
#include <heddle/fit_data.h>
#include <heddle/tensor_board.h>

namespace heddle {

// automatic: if the network consists of layers, Sequential and Model, without hooks, and losses have names.
enum class FitCapture { automatic, always, never };

struct FitOptions {
  FitLoss loss{};
  std::vector<FitMetric> metrics{};
  std::int64_t epochs = 1;  // of the whole training, those before a resume too
  FitData validation{};     // evaluated after each epoch: "val_loss" ...
  std::vector<AnyCallback> callbacks{};
  bool verbose = true;  // a Progress before the callbacks, unless they have one
  // For data that are arrays: rows of a batch, of all ranks together; a new order in each epoch.
  std::int64_t batch = 32;
  bool shuffle = true;
  std::uint64_t seed = 0;
  std::vector<std::string> outputs{};  // names of the outputs, for "priority_loss"; else "output_0" ...
  // How many arrays at the end of a batch are labels; -1: one for each term of the loss, or one.
  int labels = -1;
  int accumulate = 1;                          // batches whose mean gradient makes a step
  double clip_norm = 0, clip_value = 0;        // clip_grad_norm, clip_grad_value; 0: not clipped
  FitCapture capture = FitCapture::automatic;  // whether steps are captured graphs: the same bits, faster
  // A loss that is NaN or infinite throws, names the layer, and leaves the weights before it; with a LossScaler its step changes
  // nothing, and the training goes on.
  bool stop_on_nan = true;
  // A checkpoint of a former fit(), to go on from; a missing file: from the beginning. {epoch} or {step} in the file's name: the
  // newest one that all ranks have. Within an epoch batches, loss and metrics have to be those of the run that was saved. A run that
  // run.stop() has ended counts as finished, unless resume_stopped is set.
  std::string resume{};
  bool resume_stopped = false;
  // Where Ctrl-C saves a checkpoint; {epoch} and {step} as in a ModelCheckpoint's path.
  std::string save_on_interrupt{};
  std::map<std::string, Generator*> generators{};  // in checkpoints, besides the thread's default_generator()
  std::map<std::string, std::string> notes{};      // in checkpoints
  // Called after each step: an exception interrupts as Ctrl-C does, and is thrown after checkpoints are saved.
  std::function<void()> check_interrupt{};
  // Whether the exception that is being handled, of a callback, a loss or data, interrupts in this way too; empty: none does.
  std::function<bool()> is_interrupt{};
};

// Trains all epochs that are left. Ops copy batches to the device of the network's first parameter. Gradients from before a step,
// and of leaves that the trainer does not train, are cleared. An epoch of fewer batches than Batches::size() says is an Error.
// A step takes the batch's mean loss, and with an "allreduce" or "dist_sync" store the mean over the ranks: each rank calls fit()
// with its own share, of as many batches. Losses and metrics are of all ranks of an "allreduce" store. The modes of modules and the trainer's schedule are as before afterwards, also after an
// exception. While it runs, Ctrl-C ends it after a step if the program handles SIGINT in no other way; a second one kills. Throws
// InvalidArgument before anything is trained, and what a batch, a step or a callback throws.
History fit(Module& net, Trainer& trainer, const FitData& data, FitOptions options,
            Where where = Where::current());

struct EvaluateOptions {
  FitLoss loss{};  // none: no "loss"
  std::vector<FitMetric> metrics{};
  std::int64_t batch = 32;             // for data that are arrays
  std::vector<std::string> outputs{};  // as in FitOptions
  int labels = -1;
  // Values are of all ranks, each with its own share; null: of this process.
  std::shared_ptr<Communicator> ranks{};
};
// In inference mode, without gradients. Copies batches as fit() does. Metrics are reset before. Waits. Throws
// InvalidArgument for data without batches; all ranks throw if one does.
FitValues evaluate(Module& net, const FitData& data, const EvaluateOptions& options,
                   Where where = Where::current());

struct PredictOptions {
  std::int64_t batch = 32;  // for data that are arrays
  // How many first arrays of a batch are inputs; -1: as many as a Model has, one of a layer, else all.
  int inputs = -1;
};
// The outputs for all batches, one below the other along axis 0, on cpu(). In inference mode, without gradients. Copies batches as fit() does. Throws
// InvalidArgument for data without batches.
std::vector<NDArray> predict(Module& net, const FitData& data, const PredictOptions& options = {},
                             Where where = Where::current());

}  // namespace heddle
