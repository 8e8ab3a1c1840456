// GPU kernels that show in which order they have run. The argument `stream` is a cudaStream_t.
#pragma once

namespace heddle::test {

// Computes to[i] = from[i] * factor + term, after keeping the GPU busy for `busy` clock ticks.
void affine(void* stream, int* to, const int* from, int count, int factor, int term, long long busy = 0);

// Runs until the host writes to *flag, which is in pinned memory.
void wait_for_host(void* stream, const int* flag);

// A kernel whose launch fails, since it asks for too many threads per block.
void unlaunchable(void* stream, int* to);

// A kernel that fails while it runs. After it this process cannot use the GPU.
void trap(void* stream);

}  // namespace heddle::test
