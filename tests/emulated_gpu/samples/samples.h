// Launches of the sample kernels, each with a planted bug or Bug::none. The pointers are memory of the stream's device.
#pragma once

#include <cuda_runtime_api.h>

namespace heddle::test {

enum class Bug;

cudaError_t vector_add(cudaStream_t stream, Bug bug, const float* a, const float* b, float* sum,
                       long long count);
// shared_bytes: -1 for what the kernel needs.
cudaError_t sum(cudaStream_t stream, Bug bug, const double* values, double* total, long long count,
                unsigned blocks, int shared_bytes = -1);
cudaError_t softmax_rows(cudaStream_t stream, Bug bug, const float* in, float* out, int rows, int columns);
cudaError_t transpose(cudaStream_t stream, Bug bug, const float* in, float* out, int rows, int columns);
cudaError_t histogram(cudaStream_t stream, Bug bug, const int* values, int* counts, long long count,
                      unsigned blocks);
// sums: memory for one number a block of kBlock elements, kBlock blocks at most.
cudaError_t scan(cudaStream_t stream, Bug bug, const int* in, int* out, int* sums, long long count);
cudaError_t fill(cudaStream_t stream, float* out, float value, long long count);

}  // namespace heddle::test
