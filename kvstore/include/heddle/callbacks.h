// The callbacks of the library for fit().
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <heddle/callback.h>

namespace heddle {

// Whether less or more of a monitored value is better. automatic: more, unless its name has "loss", "error", "perplexity"
// or "distance".
enum class MonitorMode { automatic, min, max };

struct ProgressOptions {
  std::function<void(std::string_view text)> write{};  // where text goes; empty: stdout
  std::optional<bool> terminal{};  // whether a line may be drawn anew; nullopt: if stdout is one
  int lines = 5;                   // an epoch, at most, where it may not
};
// Prints epoch, batch, examples a second, time left, loss and metrics; on rank 0.
class Progress : public Callback {
 public:
  explicit Progress(ProgressOptions options = {});
  void on_train_end(FitRun& run) override;
  void on_epoch_begin(FitRun& run) override;
  void on_batch_end(FitRun& run) override;
  void on_epoch_end(FitRun& run, const FitValues& values) override;

 private:
  using Clock = std::chrono::steady_clock;
  void show(const std::string& text, bool keep);
  std::string head(const FitRun& run) const;
  ProgressOptions options_;
  bool terminal_ = false, drawn_ = false;
  Clock::time_point start_{}, last_{};
  std::int64_t first_batch_ = 0, first_examples_ = 0, shown_part_ = 0;
};

// Writes a line for each epoch to a file of comma-separated values; on rank 0. A resumed run goes on in the file.
class CsvLogger : public Callback {
 public:
  explicit CsvLogger(std::string path) : path_(std::move(path)) {}
  void on_train_begin(FitRun& run) override;  // throws Error if the file cannot be written
  void on_epoch_end(FitRun& run, const FitValues& values) override;

 private:
  std::string path_;
  std::vector<std::string> names_{};
};
struct ModelCheckpointOptions {
  std::string monitor{};  // not empty: saves only after epochs in which this value is the best so far
  MonitorMode mode = MonitorMode::automatic;
  std::int64_t every_epochs = 1, every_steps = 0;  // 0: never
  std::int64_t keep = 0;                           // how many of the files stay, the last ones; 0: all
  bool on_interrupt = true;                        // saves after Ctrl-C as well
};
// Saves checkpoints of the run. In the path {epoch}, from 1, {step} and names of values, {val_loss}, stand for their numbers, "nan" after
// Ctrl-C. One file without them: a save by steps while it is being written is made at the end. One object keeps its best over fits.
class ModelCheckpoint : public Callback {
 public:
  explicit ModelCheckpoint(std::string path, ModelCheckpointOptions options = {});
  void on_train_begin(FitRun& run) override;
  void on_batch_end(FitRun& run) override;
  void on_epoch_end(FitRun& run, const FitValues& values) override;
  void on_interrupt(FitRun& run) override;
  void on_train_end(FitRun& run) override;
  CallbackState state() const override;
  void set_state(const CallbackState& state) override;

 private:
  void save(FitRun& run, const FitValues& values);
  void remove_old(FitRun& run, std::int64_t most, bool is_end);
  std::string path_;
  ModelCheckpointOptions options_;
  bool is_one_ = false, left_out_ = false, interrupted_ = false;  // left out: the last save
  std::int64_t saved_step_ = -1;
  std::optional<double> best_{};
  std::vector<std::string> files_{};
};
struct EarlyStoppingOptions {
  std::string monitor = "val_loss";
  MonitorMode mode = MonitorMode::automatic;
  double min_delta = 0;              // what counts as better
  std::int64_t patience = 0;         // epochs in a row without a better value that do not end the training
  bool restore_best = false;         // whether the network has the weights of the best epoch afterwards
  std::optional<double> baseline{};  // a value that has to be bettered
};
// Ends the training when a value gets no better.
class EarlyStopping : public Callback {
 public:
  explicit EarlyStopping(EarlyStoppingOptions options = {});
  void on_train_begin(FitRun& run) override;
  void on_epoch_end(FitRun& run, const FitValues& values) override;
  void on_train_end(FitRun& run) override;
  CallbackState state() const override;
  void set_state(const CallbackState& state) override;

 private:
  EarlyStoppingOptions options_;
  std::optional<double> best_{};
  std::int64_t waited_ = 0;
  std::map<std::string, NDArray> weights_{}, buffers_{};  // of the best epoch
};

// Sets the learning rate of each epoch to schedule(epoch, rate of the last step). Not beside a ReduceOnPlateau, which fit() refuses.
class LearningRateScheduler : public Callback {
 public:
  using Function = std::function<double(std::int64_t epoch, double lr)>;
  explicit LearningRateScheduler(Function schedule);
  void on_train_begin(FitRun& run) override;
  void on_epoch_begin(FitRun& run) override;
  CallbackState state() const override;
  void set_state(const CallbackState& state) override;

 private:
  Function schedule_;
  std::optional<double> lr_{};
};
struct ReduceOnPlateauOptions {
  std::string monitor = "val_loss";
  MonitorMode mode = MonitorMode::automatic;
  double factor = 0.1, min_delta = 1e-4, min_lr = 0;
  std::int64_t patience = 10, cooldown = 0;  // epochs
};
// Multiplies the rates of the trainer's schedule by a factor when a value gets no better. One in a fit().
class ReduceOnPlateau : public Callback {
 public:
  explicit ReduceOnPlateau(ReduceOnPlateauOptions options = {});
  void on_train_begin(FitRun& run) override;
  void on_epoch_end(FitRun& run, const FitValues& values) override;
  CallbackState state() const override;
  void set_state(const CallbackState& state) override;

 private:
  void apply(FitRun& run) const;
  ReduceOnPlateauOptions options_;
  Schedule schedule_{};  // the trainer's when the training began
  std::optional<double> best_{};
  std::int64_t waited_ = 0, cooling_ = 0;
  double scale_ = 1;
};

}  // namespace heddle
