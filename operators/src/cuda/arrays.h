// What kernels for GPUs of several families share: addresses of arrays, and errors of launches.
#pragma once

#include <cstddef>
#include <string>

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>

namespace heddle::cuda_kernels {

// The first element of an array on a GPU, for work on a stream. Called by the op that does the work, which gives the array
// memory if it has none.
std::byte* address(const NDArray& array, check::AccessKind touch);
template <class T> const T* read(const NDArray& array) {
  return reinterpret_cast<const T*>(address(array, check::AccessKind::read));
}
template <class T> T* written(const NDArray& array) {
  return reinterpret_cast<T*>(address(array, check::AccessKind::write));
}

// Throws Error if `problem`, with which a kernel was launched, is not null.
void check_launch(const KernelContext& context, const char* problem);

}  // namespace heddle::cuda_kernels
