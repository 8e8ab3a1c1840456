// Copies and fills of arrays on GPUs. Work on one GPU is done by kernels on its compute stream. Elements go from and to the
// CPU by way of page-locked memory, on the lanes for copies. No host thread waits.
#pragma once

#include <heddle/ndarray.h>

namespace heddle::ndarray_detail {

inline bool on_gpu(const NDArray& array) { return array.device().kind == DeviceKind::cuda; }

// The array itself, or if it is on a GPU a copy of its values on the CPU.
NDArray on_cpu(const NDArray& array);

// Pushes ops that copy source to target, of one shape, converted. One of them is on a GPU.
void push_gpu_copy(const char* name, const NDArray& source, const NDArray& target);
// Pushes an op that fills an array on a GPU. `value` points to one element of dtype `given`.
void push_gpu_fill(const NDArray& target, const void* value, DType given);
// Pushes an op that fills a row-major array on a GPU with begin, begin + step, ... exact: integers, computed modulo 2^64.
void push_gpu_range(const NDArray& target, Scalar begin, Scalar step, bool exact);

}  // namespace heddle::ndarray_detail
