// Arrays of indices, checked for kernels.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <heddle/ndarray.h>

#include "cpu/scratch.h"

namespace heddle::cpu_kernels {

// All indices (integers, of any strides) in row-major order. Negative ones count from the end if the operator allows
// that. Throws InvalidIndex naming the operator, an index that is not below `bound`, and its position.
std::vector<std::int64_t> checked_indices(const char* op, const NDArray& indices, std::int64_t bound,
                                          bool from_end);

// The indices of an array in row-major order, as checked_indices() returns them. A contiguous i64 array is
// read in place, any other is copied. Each access checks its index again: another library may change memory
// that it shares with Heddle.
class CheckedIndices {
 public:
  // The kernel writes into `y`. Indices in the memory of y are copied.
  CheckedIndices(const char* op, const NDArray& indices, std::int64_t bound, bool from_end, const NDArray& y);
  std::int64_t size() const { return indices_.size(); }
  std::int64_t operator[](std::int64_t i) const {
    const std::int64_t given = data_[i], index = given < 0 && from_end_ ? given + bound_ : given;
    if (static_cast<std::uint64_t>(index) >= static_cast<std::uint64_t>(bound_)) refuse(i);
    return index;
  }
  void check_all() const;  // called before a kernel writes, so that an error leaves the target unchanged

 private:
  [[noreturn]] void refuse(std::int64_t i) const;

  const char* op_;
  const NDArray& indices_;
  std::int64_t bound_;
  bool from_end_;
  std::optional<Scratch> copy_;
  const std::int64_t* data_;
};

}  // namespace heddle::cpu_kernels
