// Shows a training run's progress: one line that redraws itself on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

struct StepReport {
  std::int64_t epoch, epochs;  // number of the current epoch, from 1, and of all epochs
  std::int64_t step, steps;    // number of steps done in this epoch, and of all its steps
  std::int64_t images;         // number of pictures of this step
  double loss, accuracy;       // means over the part of the epoch that is done
};

class ProgressLine {
 public:
  explicit ProgressLine(bool silent = false);  // `silent`: shows nothing
  void step(const StepReport& report);
  // Removes the progress bar and prints a line that stays.
  void line(const std::string& text);
  double seconds() const;            // seconds since this object was made
  double images_per_second() const;  // the mean over training and testing since this object was made

 private:
  void draw(const StepReport& report);
  void print_plain(const StepReport& report);
  std::string time_left(const StepReport& report) const;
  using Clock = std::chrono::steady_clock;
  bool silent_, terminal_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now(), last_drawn_{};
  std::int64_t images_ = 0, steps_ = 0;
};
