// Callbacks of fit() that say how the training goes: Progress, CsvLogger.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <heddle/callback.h>

namespace heddle {

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

}  // namespace heddle
