// The rows of a row-sparse array that a kernel reads, in plain types. read_present.h has how a thread looks at them.
#pragma once

#include "cuda/fault_slot.h"
#include "cuda/row_sums.h"

namespace heddle::cuda_kernels {

enum RowFault : int { kBadRow, kBadCount, kBadOrder };

// Number `number` of the arrays of an op.
struct PresentRows {
  SparseRows x;
  long long bound;
  int number;
  FaultSlot* slot;
};
constexpr long long kRowFault =
    1ll << 40;  // the place of row i of array k is k * kRowFault + i + 1, of its count k * kRowFault
constexpr long long kIndexFault = 1ll << 62;

}  // namespace heddle::cuda_kernels
