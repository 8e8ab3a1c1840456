// ModelCheckpoint: a callback of fit() that saves checkpoints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <heddle/callback.h>
#include <heddle/monitor_mode.h>

namespace heddle {

struct ModelCheckpointOptions {
  std::string monitor{};  // not empty: saves only after epochs in which this value is the best so far
  MonitorMode mode = MonitorMode::automatic;
  std::int64_t every_epochs = 1, every_steps = 0;  // 0: never
  std::int64_t keep = 0;                           // how many of the files stay, the last ones; 0: all
  bool on_interrupt = true;                        // saves after Ctrl-C as well
};

// Saves checkpoints of the run. In the path {epoch}, from 1, {step} and names of values, {val_loss}, stand for their numbers, "nan" after
// Ctrl-C. One file without them that is written by steps is written after the last step too, and is not at a step while it is being
// written. One object keeps its best over fits.
class ModelCheckpoint : public Callback {
 public:
  explicit ModelCheckpoint(std::string path, ModelCheckpointOptions options = {});
  void on_train_begin(FitRun& run) override;
  void on_batch_end(FitRun& run) override;
  void on_epoch_end(FitRun& run, const FitValues& values) override;
  void on_interrupt(FitRun& run) override;
  void on_last_step(FitRun& run) override;
  void on_train_end(FitRun& run) override;
  CallbackState state() const override;
  void set_state(const CallbackState& state) override;

 private:
  void save(FitRun& run, const FitValues& values);
  void remove_old(FitRun& run, std::int64_t most, bool is_end);
  std::string path_;
  ModelCheckpointOptions options_;
  bool is_one_ = false, interrupted_ = false;
  std::int64_t saved_step_ = -1;
  std::optional<double> best_{};
  std::vector<std::string> files_{};
};

}  // namespace heddle
