#include "families/reduce/cpu/plan.h"

#include <cstdlib>

namespace heddle::cpu_kernels {

// Axes are kept sorted, those with the smallest step in the input last.
void AxisGroup::add(std::int64_t size, std::int64_t step, std::int64_t result_step) {
  if (size == 1) return;
  int at = dims++;
  while (at > 0 && std::abs(steps[at - 1]) < std::abs(step)) {
    sizes[at] = sizes[at - 1];
    steps[at] = steps[at - 1];
    result_steps[at] = result_steps[at - 1];
    --at;
  }
  sizes[at] = size;
  steps[at] = step;
  result_steps[at] = result_step;
}

void AxisGroup::merge() {
  int last = 0;
  for (int d = 1; d < dims; ++d) {
    const bool fits = steps[last] == steps[d] * sizes[d] && result_steps[last] == result_steps[d] * sizes[d];
    if (!fits) ++last;
    sizes[last] = fits ? sizes[last] * sizes[d] : sizes[d];
    steps[last] = steps[d];
    result_steps[last] = result_steps[d];
  }
  if (dims > 0) dims = last + 1;
}

std::int64_t AxisGroup::count() const {
  std::int64_t product = 1;
  for (int d = 0; d < dims; ++d) product *= sizes[d];
  return product;
}

std::array<std::int64_t, 2> AxisGroup::offsets(std::int64_t index) const {
  std::array<std::int64_t, 2> result{};
  for (int d = dims - 1; d >= 0; --d) {
    const std::int64_t at = index % sizes[d];
    index /= sizes[d];
    result[0] += at * steps[d];
    result[1] += at * result_steps[d];
  }
  return result;
}

ReducePlan::ReducePlan(const NDArray& x, const NDArray& y, const Dims& axes) {
  int next = 0;
  for (int axis = 0; axis < x.ndim(); ++axis) {
    if (next < axes.size() && axes[next] == axis) {
      reduced.add(x.shape()[axis], x.strides()[axis], 0);
      ++next;
    } else {
      kept.add(x.shape()[axis], x.strides()[axis], y.strides()[axis]);
    }
  }
  kept.merge();
  reduced.merge();
}

bool ReducePlan::by_columns() const {
  return kept.dims > 0 && reduced.dims > 0 && std::abs(kept.inner_step()) < std::abs(reduced.inner_step());
}

}  // namespace heddle::cpu_kernels
