// How a thread looks at the rows of a row-sparse array: a count or a row that is wrong is reported, and no memory is touched with it.
#pragma once

#include "cuda/present_rows.h"
#include "cuda/report.h"

namespace heddle::cuda_kernels {

// How many rows a thread may read.
HEDDLE_DEVICE inline long long present_count(on_gpu::Thread& thread, const PresentRows& rows) {
  const long long count = *rows.x.count;
  if (count >= 0 && count <= rows.x.capacity) return count;
  report(thread, rows.slot, rows.number * kRowFault, static_cast<unsigned long long>(count), kBadCount,
         static_cast<unsigned long long>(rows.x.capacity));
  return 0;
}
// Row i, or -1 if it is not between the row before and the bound.
HEDDLE_DEVICE inline long long present_row(on_gpu::Thread& thread, const PresentRows& rows, long long i) {
  const long long row = rows.x.rows[i], previous = i == 0 ? -1 : rows.x.rows[i - 1];
  if (row > previous && row >= 0 && row < rows.bound) return row;
  report(thread, rows.slot, rows.number * kRowFault + 1 + i, static_cast<unsigned long long>(row), kBadOrder,
         static_cast<unsigned long long>(previous));
  return -1;
}

}  // namespace heddle::cuda_kernels
