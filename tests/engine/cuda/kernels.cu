#include "gpu/kernel.h"
#include "kernels.h"

namespace heddle::test {
namespace {

constexpr unsigned kThreads = 256;

struct Affine {
  int* to;
  const int* from;
  int count, factor, term;
  long long busy;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long begin = thread.clock();
    while (thread.clock() - begin < busy) thread.pause();
    const long long i = thread.global_index();
    if (i < count) to[i] = from[i] * factor + term;
  }
};

struct WaitForHost {
  const int* flag;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    while (on_gpu::atomic_load<on_gpu::Order::acq_rel>(flag) == 0) thread.pause();
  }
};

struct Trap {
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const { thread.trap(); }
};

cudaStream_t of(void* stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace

void affine(void* stream, int* to, const int* from, int count, int factor, int term, long long busy) {
  on_gpu::launch(of(stream), on_gpu::blocks_for(count, kThreads), kThreads, 0,
                 Affine{to, from, count, factor, term, busy});
}

void wait_for_host(void* stream, const int* flag) { on_gpu::launch(of(stream), 1, 1, 0, WaitForHost{flag}); }

void unlaunchable(void* stream, int* to) {
  on_gpu::launch(of(stream), 1, 1 << 20, 0, Affine{to, to, 1, 1, 1, 0});
}

void trap(void* stream) { on_gpu::launch(of(stream), 1, 1, 0, Trap{}); }

}  // namespace heddle::test
