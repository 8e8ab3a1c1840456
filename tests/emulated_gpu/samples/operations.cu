// Kernels that use each operation of a thread.
#include "gpu/kernel.h"
#include "samples/operations.h"

namespace heddle::test {
namespace {

struct WriteIndex {
  int* out;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const uint3 at = thread.thread_index(), block = thread.block_index();
    const dim3 dim = thread.block_dim(), grid = thread.grid_dim();
    const unsigned b = (block.z * grid.y + block.y) * grid.x + block.x;
    const unsigned t = (at.z * dim.y + at.y) * dim.x + at.x;
    out[b * dim.x * dim.y * dim.z + t] = static_cast<int>(b * 1000 + t);
  }
};

struct Votes {
  int* out;  // 8 a thread
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const int rank = thread.rank();
    int* own = out + rank * 8;
    own[0] = thread.barrier_count(rank % 3 == 0);
    own[1] = thread.barrier_and(rank >= 0);
    own[2] = thread.barrier_and(rank != 7);
    own[3] = thread.barrier_or(rank == 40);
    own[4] = static_cast<int>(thread.ballot(thread.lane() % 2 == 1));
    own[5] = thread.any(rank == 3) * 2 + thread.all(rank < 32);
    own[6] = static_cast<int>(thread.match_any(thread.lane() / 8));
    own[7] = thread.barrier_or(rank == 4000);
  }
};

struct Shuffles {
  double* out;  // 6 a thread
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const double value = thread.lane() + 0.5;
    double* own = out + thread.rank() * 6;
    own[0] = thread.shuffle(value, 5);
    own[1] = thread.shuffle_up(value, 3);
    own[2] = thread.shuffle_down(value, 3);
    own[3] = thread.shuffle_xor(value, 9);
    own[4] = thread.shuffle(value, 1, on_gpu::kAllLanes, 8);
    // Each half of the warp by itself, a different number of times.
    const bool low = thread.lane() < 16;
    const unsigned half = low ? 0xffffu : 0xffff0000u;
    double sum = 0;
    for (int i = 0; i < (low ? 3 : 5); ++i) sum += thread.shuffle_xor(value, 1 << i % 4, half);
    own[5] = sum;
  }
};

template <class T> struct Atomics {
  T* at;  // 5 values
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const auto own = static_cast<T>(thread.global_index() + 1);
    on_gpu::atomic_add(&at[0], own);
    if constexpr (std::is_integral_v<T>) {
      on_gpu::atomic_min(&at[1], own);
      on_gpu::atomic_max(&at[2], own);
    }
    for (T seen = 0;;) {  // adds by compare and exchange
      const T before = on_gpu::atomic_compare_exchange<on_gpu::Order::acq_rel>(&at[3], seen, seen + own);
      if (before == seen) break;
      seen = before;
    }
    on_gpu::atomic_exchange(&at[4], own);
  }
};

struct LastBlock {
  int *partial, *arrived, *total;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    HEDDLE_SHARED(thread, last, bool);
    if (thread.rank() == 0) {
      partial[thread.block_index().x] = static_cast<int>(thread.block_index().x) + 1;
      last =
          on_gpu::atomic_add<on_gpu::Order::acq_rel>(arrived, 1) + 1 == static_cast<int>(thread.grid_dim().x);
    }
    thread.barrier();
    if (!last || thread.rank() != 0) return;
    int sum = 0;
    for (unsigned i = 0; i < thread.grid_dim().x; ++i) sum += partial[i];
    *total = sum;
  }
};

}  // namespace

cudaError_t write_index(cudaStream_t stream, dim3 grid, dim3 block, int* out) {
  return on_gpu::launch(stream, grid, block, 0, WriteIndex{out});
}
cudaError_t votes(cudaStream_t stream, int* out) { return on_gpu::launch(stream, 1, 64, 0, Votes{out}); }
cudaError_t shuffles(cudaStream_t stream, double* out) {
  return on_gpu::launch(stream, 1, 64, 0, Shuffles{out});
}
template <class T> cudaError_t atomics(cudaStream_t stream, T* at) {
  return on_gpu::launch(stream, 3, 50, 0, Atomics<T>{at});
}
cudaError_t last_block(cudaStream_t stream, int* partial, int* arrived, int* total) {
  return on_gpu::launch(stream, 9, 64, 0, LastBlock{partial, arrived, total});
}

template cudaError_t atomics(cudaStream_t, int*);
template cudaError_t atomics(cudaStream_t, unsigned*);
template cudaError_t atomics(cudaStream_t, long long*);
template cudaError_t atomics(cudaStream_t, unsigned long*);
template cudaError_t atomics(cudaStream_t, float*);
template cudaError_t atomics(cudaStream_t, double*);

}  // namespace heddle::test
