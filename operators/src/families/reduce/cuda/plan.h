// How a reduction is divided among the threads of a GPU. All of it depends on shapes and strides alone.
#pragma once

#include "cuda/team.h"
#include "families/reduce/cuda/kernels.h"
#include "gpu/elements.h"
#include "gpu/layout.h"

namespace heddle::cuda_kernels {

using on_gpu::Type;

struct Plan {
  on_gpu::Layout<2> kept;     // steps of y and of x
  on_gpu::Layout<1> reduced;  // steps of x
  long long results, count;   // elements of y; of x for each of them
  Teams teams;
  Parts parts;
  bool dense;  // the elements of a result are adjacent
};

inline Plan plan_of(const Reduction& r) {
  long long sizes[2][kReduceDims] = {}, x_steps[2][kReduceDims] = {}, y_steps[kReduceDims] = {};
  int dims[2] = {};
  Plan plan{};
  plan.count = plan.results = 1;
  for (int axis = 0; axis < r.dims; ++axis) {
    const bool reduced = r.reduced[axis];
    (reduced ? plan.count : plan.results) *= r.sizes[axis];
    const int at = dims[reduced]++;
    sizes[reduced][at] = r.sizes[axis];
    x_steps[reduced][at] = r.x_strides[axis];
    if (!reduced) y_steps[at] = r.y_strides[axis];
  }
  plan.kept = on_gpu::make_layout<2>(dims[0], sizes[0], {y_steps, x_steps[0]});
  if (plan.count > 0) plan.reduced = on_gpu::make_layout<1>(dims[1], sizes[1], {x_steps[1]});
  const long long across = std::llabs(plan.kept.steps[plan.kept.dims - 1][1]);
  const long long along = plan.count > 1 ? std::llabs(plan.reduced.steps[plan.reduced.dims - 1][0]) : 0;
  const bool columns = plan.results > 1 && across != 0 && (along == 0 || across < along);
  plan.dense = plan.count == 1 || (plan.reduced.dims == 1 && plan.reduced.steps[0][0] == 1);
  plan.teams = teams_for(plan.results, plan.count, columns && plan.count > 1);
  plan.parts = parts_of(plan.results, plan.count, plan.teams);
  return plan;
}

}  // namespace heddle::cuda_kernels
