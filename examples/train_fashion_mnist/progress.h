// Shows a training run's progress: one line that redraws itself on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

struct StepReport {
  std::int64_t epoch, epochs;  // epoch counts from 1
  std::int64_t step, steps;    // step: done in this epoch; steps: of the whole epoch
  std::int64_t images;         // pictures of this step
  double loss, accuracy;       // means over the epoch so far
};

class Progress {
 public:
  explicit Progress(bool silent = false);  // checks whether stdout is a terminal
  void step(const StepReport& report);
  // Removes the bar and prints a line that stays.
  void line(const std::string& text);
  double seconds() const;            // seconds since the start
  double images_per_second() const;  // since the start, in training and testing together

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
