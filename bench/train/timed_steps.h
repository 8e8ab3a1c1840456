// Measures steps of training.
#pragma once

#include <concepts>

#include <heddle/engine.h>
#include <heddle/ndarray.h>

#include "support/support.h"

namespace heddle::bench {

struct TimedSteps {
  double seconds;
  NDArray loss;  // of the last step
};

// Calls next_step(), which returns the loss of a step whose ops it has pushed, `steps` times: one time or more. At most two steps
// are unfinished at any time, as in a program that reads each loss one step late. The engine is idle before and after.
template <std::invocable Step> TimedSteps timed_steps(Engine& engine, int steps, Step next_step) {
  engine.wait_all();
  const double start = now();
  NDArray previous;
  for (int i = 0; i < steps; ++i) {
    const NDArray loss = next_step();
    if (previous.defined()) previous.wait();
    previous = loss;
  }
  engine.wait_all();
  return {now() - start, previous};
}

}  // namespace heddle::bench
