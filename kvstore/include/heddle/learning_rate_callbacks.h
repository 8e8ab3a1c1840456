// Callbacks of fit() that set learning rates: LearningRateScheduler, ReduceOnPlateau.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <heddle/callback.h>
#include <heddle/monitor_mode.h>

namespace heddle {

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
