// Prefix sums of integers on a GPU, in plain types.
#pragma once

namespace heddle::cuda_kernels {

// How many long longs of scratch memory exclusive_scan() needs for `count` values.
long long scan_space(long long count);

// values[i] = the sum of the values before i; total, unless null, gets the sum of all. Enqueues work on a cudaStream_t. Returns
// why it could not; null if it could.
const char* exclusive_scan(void* stream, long long* values, long long count, long long* space,
                           long long* total);

}  // namespace heddle::cuda_kernels
