// A reduction for any way F of joining elements (join.h).
#pragma once

#include "cpu/reduction/columns.h"
#include "cpu/reduction/rows.h"

namespace heddle::cpu_kernels {

// y's elements from those of x, which start at `from`: another view of the same bits may be given.
template <class F, class T, class R>
void reduce(const NDArray& x, const T* from, const NDArray& y, const Dims& axes) {
  const ReducePlan plan(x, y, axes);
  if (y.size() == 0) return;
  if (plan.by_columns() && plan.reduced.count() > 0)
    return reduction::reduce_columns<F>(plan, from, y.data<R>());
  reduction::reduce_rows<F>(plan, from, y.data<R>());
}

}  // namespace heddle::cpu_kernels
