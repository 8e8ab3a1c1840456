// Launches of kernels that use each operation of a thread.
#pragma once

#include <cuda_runtime_api.h>

namespace heddle::test {

// out[i] = 1000 * block + thread, for the i-th thread of the grid.
cudaError_t write_index(cudaStream_t stream, dim3 grid, dim3 block, int* out);
cudaError_t votes(cudaStream_t stream, int* out);        // 64 threads, 8 results each
cudaError_t shuffles(cudaStream_t stream, double* out);  // 64 threads, 6 results each
// 150 threads change the 5 values. T: int, unsigned, long long, unsigned long, float or double.
template <class T> cudaError_t atomics(cudaStream_t stream, T* at);
// The last of 9 blocks sums what the others have written.
cudaError_t last_block(cudaStream_t stream, int* partial, int* arrived, int* total);

}  // namespace heddle::test
