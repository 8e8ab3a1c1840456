// What kernels for GPUs of several families share: addresses of arrays, and errors of launches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>

#include "cuda/strided.h"

namespace heddle::cuda_kernels {

// The first element of an array on a GPU, for work on a stream. Called by the op that does the work, which gives the array
// memory if it has none. Throws Error for an array on another device than the stream.
std::byte* address(const NDArray& array, check::AccessKind touch);
template <class T> const T* read(const NDArray& array) {
  return reinterpret_cast<const T*>(address(array, check::AccessKind::read));
}
template <class T> T* written(const NDArray& array) {
  return reinterpret_cast<T*>(address(array, check::AccessKind::write));
}

// The same for any dtype; null for an array that is undefined or has no elements.
const void* read_address(const NDArray& array);
void* written_address(const NDArray& array);

// An array, and an array of indices with the greatest index + 1, as kernels are given them.
Strided strided(const NDArray& array, check::AccessKind touch);
Indices index_list(const NDArray& indices, std::int64_t bound, bool from_end, FaultSlot* slot);

// The number that a kernel has reported, as a text: a value of this integer dtype.
std::string text_of(unsigned long long reported, DType dtype);
// Throws the CPU's error for an index, whose position is that of the report times `step`. For DataFault::check.
std::function<void(const FaultSlot&)> index_refusal(const char* op, const NDArray& indices,
                                                    std::int64_t bound, std::int64_t step = 1);

// Throws Error if `problem`, with which a kernel was launched, is not null.
void check_launch(const KernelContext& context, const char* problem);

}  // namespace heddle::cuda_kernels
