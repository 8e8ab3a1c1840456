#include "cpu/checked_indices.h"

#include <string>
#include <type_traits>
#include <utility>

#include "core/data_error.h"
#include "cpu/loops/chunks.h"
#include "cpu/loops/strided_loop.h"

namespace heddle::cpu_kernels {

namespace {

// Writes the checked indices to `result`, in row-major order.
void collect(const char* op, const NDArray& indices, std::int64_t bound, bool from_end,
             std::int64_t* result) {
  const StridedLoop<2> loop(indices.shape(), {indices.strides(), contiguous_strides(indices.shape())});
  const std::int64_t step = loop.inner_steps()[0], to_step = loop.inner_steps()[1];
  const auto collect_from = [&]<class T>(const T* from) {
    loop.run([&](const auto& at, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i) {
        const T value = from[at[0] + i * step];
        const auto given = static_cast<std::int64_t>(value);
        const std::int64_t index = given < 0 && from_end ? given + bound : given;
        const std::int64_t flat = at[1] + i * to_step;
        if (index < 0 || index >= bound || !std::in_range<std::int64_t>(value))
          refuse_index(op, std::to_string(value), flat, indices.shape(), bound);
        result[flat] = index;
      }
    });
  };
  if (indices.size() == 0) return;
  visit_number(indices.dtype(), [&]<class T> {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) collect_from(indices.data<const T>());
  });
}

}  // namespace

std::vector<std::int64_t> checked_indices(const char* op, const NDArray& indices, std::int64_t bound,
                                          bool from_end) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(indices.size()));
  collect(op, indices, bound, from_end, result.data());
  return result;
}

CheckedIndices::CheckedIndices(const char* op, const NDArray& indices, std::int64_t bound, bool from_end,
                               const NDArray& y)
    : op_(op), indices_(indices), bound_(bound), from_end_(from_end) {
  if (indices.dtype() == DType::i64 && indices.is_contiguous() && indices.storage() != y.storage()) {
    data_ = indices.data<const std::int64_t>();
  } else {
    copy_.emplace(static_cast<std::size_t>(indices.size()) * sizeof(std::int64_t));
    collect(op, indices, bound, from_end, copy_->as<std::int64_t>());
    data_ = copy_->as<const std::int64_t>();
  }
}

void CheckedIndices::check_all() const {
  if (copy_) return;
  const auto least = from_end_ ? -bound_ : std::int64_t{0};
  parallel_chunks(size(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    bool outside = false;
    for (std::int64_t i = begin; i < end; ++i) outside |= (data_[i] < least) | (data_[i] >= bound_);
    for (std::int64_t i = begin; outside && i < end; ++i) (*this)[i];
  });
}

// Several threads may find wrong indices: the error names the first of all.
void CheckedIndices::refuse(std::int64_t i) const {
  const auto least = from_end_ ? -bound_ : std::int64_t{0};
  for (std::int64_t k = 0; k < i; ++k)
    if (data_[k] < least || data_[k] >= bound_) i = k;
  refuse_index(op_, std::to_string(data_[i]), i, indices_.shape(), bound_);
}

}  // namespace heddle::cpu_kernels
