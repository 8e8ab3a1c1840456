// Learning rates as pure functions of the step number (0 is the first step), so that a resumed run needs no
// state.
#pragma once

#include <cstdint>
#include <functional>

namespace heddle {

using Schedule = std::function<double(std::int64_t step)>;

// All throw InvalidArgument for rates that are negative or not finite, and for step counts below 1.

// lr at every step.
Schedule constant_schedule(double lr);

// lr * factor^(step / every): falls by `factor` each `every` steps.
Schedule step_schedule(double lr, std::int64_t every, double factor = 0.1);

// Half a cosine from lr at step 0 to final_lr at step `steps` and ever after (Loshchilov and Hutter, ICLR'17,
// "SGDR", without restarts).
Schedule cosine_schedule(double lr, std::int64_t steps, double final_lr = 0);

// Cosines with restarts (SGDR): from lr to final_lr within `steps` steps, then from lr again within steps *
// factor, and so on. factor: 1 or more.
Schedule cosine_restarts_schedule(double lr, std::int64_t steps, double final_lr = 0, double factor = 1);

// final_lr + (lr - final_lr) * (1 - step / steps)^power, and final_lr from step `steps` on; power 1 is a
// line.
Schedule polynomial_schedule(double lr, std::int64_t steps, double power = 1, double final_lr = 0);

struct OneCycleOptions {
  double rise = 0.3;          // share of the steps in which the rate rises
  double first_divisor = 25;  // the first rate is max_lr / first_divisor
  double last_divisor = 1e4;  // the last one is the first one / last_divisor
  bool linear = false;        // false: half cosines
};
// Up from max_lr / 25 to max_lr, and down to almost 0 at the last of `steps` steps (Smith and Topin,
// arXiv:1708.07120, as PyTorch's OneCycleLR).
Schedule one_cycle_schedule(double max_lr, std::int64_t steps, const OneCycleOptions& options = {});

// `first` for `steps` steps, then `rest`, which begins at its step 0.
Schedule join_schedules(std::int64_t steps, Schedule first, Schedule rest);

// The rates of `schedule` times a factor. For the linear scaling rule (Goyal et al., arXiv:1706.02677) the
// factor is the batch of all workers over the batch that the rates are for.
Schedule scale_schedule(Schedule schedule, double factor);

// The first `steps` rates of `schedule` times (step + 1) / steps; `schedule` itself afterwards.
Schedule warm_up(std::int64_t steps, Schedule schedule);

}  // namespace heddle
