// CUDA's events around work of a stream, and its errors, for the benchmarks of GPUs.
#pragma once

#include <cuda_runtime_api.h>
#include <functional>

#include <heddle/ndarray.h>

namespace heddle::bench {

void check_cuda(cudaError_t status);  // throws std::runtime_error with CUDA's text

// The median of `runs` values of fn(), after one that does not count.
double median_of(int runs, const std::function<double()>& fn);

double seconds_of(const std::function<void()>& fn);  // on the host's clock

// Seconds of the device for one call of fn: `calls` of them are between two events on the compute stream of gpu(0). The ops that fn
// pushes read x, and so run between the events. Waits for them.
double device_seconds(const NDArray& x, int calls, const std::function<void()>& fn);

}  // namespace heddle::bench
