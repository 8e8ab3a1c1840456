#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include <heddle/error.h>
#include <heddle/number_text.h>
#include <heddle/schedule.h>

namespace heddle {
namespace {

void check_rate(const char* schedule, const char* what, double value) {
  if (std::isfinite(value) && value >= 0) return;
  throw InvalidArgument(std::string(schedule) + ": " + what + " must be finite and not negative, not " +
                        number_text(value));
}

void check_steps(const char* schedule, const char* what, std::int64_t steps) {
  if (steps >= 1) return;
  throw InvalidArgument(std::string(schedule) + ": " + what + " must be at least 1, not " +
                        std::to_string(steps));
}

}  // namespace

Schedule constant_schedule(double lr) {
  check_rate("constant_schedule", "lr", lr);
  return [lr](std::int64_t) { return lr; };
}

Schedule step_schedule(double lr, std::int64_t every, double factor) {
  check_rate("step_schedule", "lr", lr);
  check_rate("step_schedule", "factor", factor);
  check_steps("step_schedule", "every", every);
  return [=](std::int64_t step) { return lr * std::pow(factor, static_cast<double>(step / every)); };
}

Schedule cosine_schedule(double lr, std::int64_t steps, double final_lr) {
  check_rate("cosine_schedule", "lr", lr);
  check_rate("cosine_schedule", "final_lr", final_lr);
  check_steps("cosine_schedule", "steps", steps);
  return [=](std::int64_t step) {
    double done = std::clamp(static_cast<double>(step) / static_cast<double>(steps), 0.0, 1.0);
    return final_lr + (lr - final_lr) * 0.5 * (1 + std::cos(std::numbers::pi * done));
  };
}

Schedule warm_up(std::int64_t steps, Schedule schedule) {
  check_steps("warm_up", "steps", steps);
  if (!schedule) throw InvalidArgument("warm_up: the schedule to warm up to is empty");
  return [steps, schedule = std::move(schedule)](std::int64_t step) {
    double rate = schedule(step);
    return step >= steps ? rate : rate * static_cast<double>(step + 1) / static_cast<double>(steps);
  };
}

}  // namespace heddle
