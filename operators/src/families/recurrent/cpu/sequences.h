// In which order the elements of a batch of sequences are computed: by length, so that the elements that still have steps are the
// first rows of each step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <heddle/parallel.h>

#include "families/recurrent/kernels.h"

namespace heddle::cpu_kernels {

// Row `row(step, i)` of the kernels' matrices is step `step` of element `order[i]`, the i-th longest one.
class Sequences {
 public:
  // lengths: undefined, or contiguous integers. Throws InvalidArgument for one outside of 0 to problem.steps.
  Sequences(const RecurrentProblem& problem, const NDArray& lengths);

  std::int64_t steps() const { return static_cast<std::int64_t>(active_.size()); }  // of the longest element
  std::int64_t rows() const { return rows_; }
  // The number of elements that have this step: rows 0 to active(step) - 1 of the step. 0 behind the last step.
  std::int64_t active(std::int64_t step) const {
    return step < steps() ? active_[static_cast<std::size_t>(step)] : 0;
  }
  std::int64_t row(std::int64_t step, std::int64_t i) const {
    return first_[static_cast<std::size_t>(step)] + i;
  }
  std::int64_t element(std::int64_t i) const { return order_[static_cast<std::size_t>(i)]; }
  bool ends(std::int64_t step, std::int64_t i) const {
    return length_[static_cast<std::size_t>(i)] == step + 1;
  }

  // The row of x and of the output, both (steps * batch, ...), for a step of the i-th longest element.
  std::int64_t place(std::int64_t step, std::int64_t i) const {
    const std::int64_t time = reverse_ ? length_[static_cast<std::size_t>(i)] - 1 - step : step;
    return at(time, element(i));
  }
  // Whether row(step, i) is place(step, i).
  bool in_place() const { return in_place_; }

  // Calls body(step, i) for each row.
  template <class Body> void for_each_row(std::int64_t width, const Body& body) const {
    parallel_for(steps(), grain(width), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t step = begin; step < end; ++step)
        for (std::int64_t i = 0; i < active(step); ++i) body(step, i);
    });
  }
  // Calls body(place) for each place behind an element's length.
  template <class Body> void for_each_place_behind(const Body& body) const {
    for (std::int64_t i = 0; i < batch_; ++i)
      for (std::int64_t time = length_[static_cast<std::size_t>(i)]; time < longest_; ++time)
        body(at(time, element(i)));
  }

 private:
  std::int64_t at(std::int64_t time, std::int64_t element) const {
    return batch_first_ ? element * longest_ + time : time * batch_ + element;
  }
  std::int64_t grain(std::int64_t width) const {
    constexpr std::int64_t kGrain = 32768;  // elements
    const std::int64_t of_step = batch_ * width;
    return of_step >= kGrain || of_step == 0 ? 1 : kGrain / of_step;
  }

  std::int64_t batch_, longest_, rows_ = 0;
  bool reverse_, batch_first_, in_place_;
  std::vector<std::int64_t> order_, length_;  // by rank
  std::vector<std::int64_t> active_, first_;  // by step
};

}  // namespace heddle::cpu_kernels
