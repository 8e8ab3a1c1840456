// Kernels that make the order of work visible. `stream` is a cudaStream_t.
#pragma once

namespace heddle::test {

// to[i] = from[i] * factor + term, after having kept the GPU busy for that many of its clock's ticks.
void affine(void* stream, int* to, const int* from, int count, int factor, int term, long long busy = 0);

// Runs until the host writes to *flag, which lies in pinned memory.
void wait_for_host(void* stream, const volatile int* flag);

// Cannot be launched: no GPU has so many threads a block.
void unlaunchable(void* stream, int* to);

// Is launched, and fails while it runs: after it this process can do nothing more with the GPU.
void trap(void* stream);

}  // namespace heddle::test
