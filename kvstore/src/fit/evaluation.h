// A pass over batches without training.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <string>

#include <heddle/batches.h>
#include <heddle/module.h>

#include "fit/epoch_values.h"

namespace heddle::fit_detail {

// Bounds how far a loop runs ahead of the workers, and with it the memory of what is not computed yet.
class StepsAhead {
 public:
  static constexpr std::size_t kMost = 4;
  void add(const NDArray& result);  // waits for the result of kMost steps before; rethrows its error

 private:
  std::deque<NDArray> pending_;
};

// Adds all batches to `values`, in the mode that the network has. After each one `is_over`, if there is one, may end it.
void evaluate_batches(const std::string& call, Module& net, Batches& batches, const BatchLoss& loss,
                      int labels, EpochValues& values, const std::function<bool()>& is_over = {});

}  // namespace heddle::fit_detail
