// EarlyStopping: a callback of fit() that ends the training when a value gets no better.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <heddle/callback.h>
#include <heddle/monitor_mode.h>

namespace heddle {

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

}  // namespace heddle
