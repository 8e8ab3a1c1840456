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

void check_schedule(const char* call, const char* what, const Schedule& schedule) {
  if (!schedule) throw InvalidArgument(std::string(call) + ": " + what + " is empty");
}

// From `begin` to `end` along half a cosine; share: in [0, 1].
double along_cosine(double begin, double end, double share) {
  return end + (begin - end) * 0.5 * (1 + std::cos(std::numbers::pi * share));
}

double share_of(std::int64_t step, std::int64_t steps) {
  return std::clamp(static_cast<double>(step) / static_cast<double>(steps), 0.0, 1.0);
}

// The place of a step in its period, in [0, 1). Periods have steps, steps * factor, steps * factor^2 ...
// steps.
double share_of_period(std::int64_t step, std::int64_t steps, double factor) {
  const double at = static_cast<double>(std::max<std::int64_t>(step, 0)), first = static_cast<double>(steps);
  if (factor == 1) return std::fmod(at, first) / first;
  const auto begin_of = [=](double n) { return first * (std::pow(factor, n) - 1) / (factor - 1); };
  double n = std::max(0.0, std::floor(std::log1p(at * (factor - 1) / first) / std::log(factor)));
  if (at < begin_of(n)) --n;  // the quotient was rounded up
  if (at >= begin_of(n + 1)) ++n;
  const double begin = begin_of(n), period = first * std::pow(factor, n);
  return (at - begin) / period;
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
  return [=](std::int64_t step) { return along_cosine(lr, final_lr, share_of(step, steps)); };
}

Schedule cosine_restarts_schedule(double lr, std::int64_t steps, double final_lr, double factor) {
  constexpr const char* kCall = "cosine_restarts_schedule";
  check_rate(kCall, "lr", lr);
  check_rate(kCall, "final_lr", final_lr);
  check_steps(kCall, "steps", steps);
  if (!(std::isfinite(factor) && factor >= 1))
    throw InvalidArgument(std::string(kCall) + ": factor must be finite and at least 1, not " +
                          number_text(factor));
  return [=](std::int64_t step) { return along_cosine(lr, final_lr, share_of_period(step, steps, factor)); };
}

Schedule polynomial_schedule(double lr, std::int64_t steps, double power, double final_lr) {
  check_rate("polynomial_schedule", "lr", lr);
  check_rate("polynomial_schedule", "power", power);
  check_rate("polynomial_schedule", "final_lr", final_lr);
  check_steps("polynomial_schedule", "steps", steps);
  return [=](std::int64_t step) {
    if (step >= steps) return final_lr;
    return final_lr + (lr - final_lr) * std::pow(1 - share_of(step, steps), power);
  };
}

Schedule one_cycle_schedule(double max_lr, std::int64_t steps, const OneCycleOptions& options) {
  constexpr const char* kCall = "one_cycle_schedule";
  check_rate(kCall, "max_lr", max_lr);
  check_steps(kCall, "steps", steps);
  for (const auto& [name, value] :
       {std::pair("first_divisor", options.first_divisor), std::pair("last_divisor", options.last_divisor)}) {
    if (std::isfinite(value) && value > 0) continue;
    throw InvalidArgument(std::string(kCall) + ": " + name + " must be positive, not " + number_text(value));
  }
  if (!(options.rise >= 0 && options.rise <= 1))
    throw InvalidArgument(std::string(kCall) + ": rise must be in [0, 1], not " + number_text(options.rise));
  const double first = max_lr / options.first_divisor, last = first / options.last_divisor;
  const double end = static_cast<double>(steps - 1), top = options.rise * static_cast<double>(steps) - 1;
  return [=, linear = options.linear](std::int64_t step) {
    const double at = std::clamp(static_cast<double>(step), 0.0, end);
    const auto along = [&](double from, double to, double share) {
      return linear ? from + (to - from) * share : along_cosine(from, to, share);
    };
    if (at < top) return along(first, max_lr, at / top);
    const double begin = std::max(top, 0.0);
    return along(max_lr, last, end > begin ? (at - begin) / (end - begin) : 0);
  };
}

Schedule join_schedules(std::int64_t steps, Schedule first, Schedule rest) {
  check_steps("join_schedules", "steps", steps);
  check_schedule("join_schedules", "the first schedule", first);
  check_schedule("join_schedules", "the schedule behind it", rest);
  return [steps, first = std::move(first), rest = std::move(rest)](std::int64_t step) {
    return step < steps ? first(step) : rest(step - steps);
  };
}

Schedule scale_schedule(Schedule schedule, double factor) {
  check_schedule("scale_schedule", "the schedule", schedule);
  check_rate("scale_schedule", "factor", factor);
  return [schedule = std::move(schedule), factor](std::int64_t step) { return schedule(step) * factor; };
}

Schedule warm_up(std::int64_t steps, Schedule schedule) {
  check_steps("warm_up", "steps", steps);
  check_schedule("warm_up", "the schedule to warm up to", schedule);
  return [steps, schedule = std::move(schedule)](std::int64_t step) {
    double rate = schedule(step);
    return step >= steps ? rate : rate * static_cast<double>(step + 1) / static_cast<double>(steps);
  };
}

}  // namespace heddle
