// Learning rates as pure functions of the step number (0 is the first step), so that a resumed run needs no state.
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

// The first `steps` rates of `schedule` times (step + 1) / steps; `schedule` itself afterwards.
Schedule warm_up(std::int64_t steps, Schedule schedule);

}  // namespace heddle
