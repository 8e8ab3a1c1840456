#include "families/recurrent/cpu/sequences.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>

namespace heddle::cpu_kernels {
namespace {

std::vector<std::int64_t> checked_lengths(const RecurrentProblem& problem, const NDArray& lengths) {
  std::vector<std::int64_t> all;
  all.reserve(static_cast<std::size_t>(problem.batch));
  visit_number(lengths.dtype(), [&]<class T> {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      const T* const given = lengths.data<const T>();
      for (std::int64_t i = 0; i < problem.batch; ++i) {
        const T length = given[i];
        if (std::cmp_less(length, 0) || std::cmp_greater(length, problem.steps))
          refuse_length(problem.op, i, std::to_string(length), problem.steps);
        all.push_back(static_cast<std::int64_t>(length));
      }
    }
  });
  return all;
}

}  // namespace

Sequences::Sequences(const RecurrentProblem& problem, const NDArray& lengths)
    : batch_(problem.batch),
      longest_(problem.steps),
      reverse_(problem.reverse),
      batch_first_(problem.batch_first),
      in_place_(!problem.batch_first && !lengths.defined()),
      order_(static_cast<std::size_t>(problem.batch)),
      length_(order_.size(), problem.steps) {
  std::iota(order_.begin(), order_.end(), 0);
  if (lengths.defined()) {
    const std::vector<std::int64_t> given = checked_lengths(problem, lengths);
    const auto of = [&](std::int64_t element) { return given[static_cast<std::size_t>(element)]; };
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::int64_t a, std::int64_t b) { return of(a) > of(b); });
    std::transform(order_.begin(), order_.end(), length_.begin(), of);
  }
  const std::int64_t steps = batch_ == 0 ? 0 : length_.front();
  std::int64_t active = batch_;
  for (std::int64_t step = 0; step < steps; ++step) {
    while (length_[static_cast<std::size_t>(active - 1)] <= step) --active;
    active_.push_back(active);
    first_.push_back(in_place_ && reverse_ ? (steps - 1 - step) * batch_ : rows_);
    rows_ += active;
  }
}

}  // namespace heddle::cpu_kernels
