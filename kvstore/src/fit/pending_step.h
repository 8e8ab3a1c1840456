// What a training has to look at later.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <heddle/callback.h>
#include <heddle/engine.h>

#include "fit/batch_parts.h"
#include "fit/buffer_copies.h"

namespace heddle::fit_detail {

// A step that is pushed, and whose loss nobody has looked at.
struct PendingStep {
  std::vector<Arrays> group;
  Arrays losses;                            // of each batch
  std::vector<std::uint64_t> random;        // positions of the generators before the step
  BufferCopies buffers;                     // from before the step
  NDArray skipped;                          // with a loss scaler: how many steps it has skipped before
  std::int64_t epoch = 0, first_batch = 0;  // of the group
};

// Waits for the array, whose value stays; an undefined one has no error.
inline void clear_error(const NDArray& array) {
  if (!array.defined()) return;
  try {
    array.wait();
  } catch (...) {  // the error that is cleared
  }
  array.engine().clear_error(array.var(), CallSite::current());
}

// Values that a callback has asked for.
struct LateValues {
  std::vector<std::string> names;
  std::vector<NDArray> arrays;
  std::function<void(const FitValues&)> use;
};

}  // namespace heddle::fit_detail
