// Ops on many arrays at once: norms, clipping, what loss scaling does, averages. A block works on one chunk of kNormGrain elements, so
// that sums depend on sizes alone; their order is not the CPU's.
#include "cuda/report.h"
#include "families/optimizer/cuda/block_sum.h"
#include "families/optimizer/cuda/kernels.h"
#include "gpu/half.h"
#include "gpu/layout.h"

namespace heddle::cuda_kernels {
namespace {

// A chunk of one of the arrays.
struct Chunk {
  const ArrayPiece* piece;
  long long begin, end;
};
HEDDLE_DEVICE inline Chunk chunk_of(const Pieces& pieces, long long number) {
  int low = 0, high = pieces.count - 1;  // the last array that begins at or before the chunk
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (pieces.all[middle].first_chunk <= number)
      low = middle;
    else
      high = middle - 1;
  }
  const ArrayPiece& piece = pieces.all[low];
  const long long begin = (number - piece.first_chunk) * kNormGrain;
  long long count = piece.count;
  if (piece.present) {
    const long long present = *piece.present * piece.width;
    if (present < count) count = present;  // a wrong count is reported by another kernel
  }
  return {&piece, begin, begin + kNormGrain < count ? begin + kNormGrain : count};
}

// Calls an object for the elements of all arrays: F's operator()(thread, data, other, i) in F::Of<T>.
template <class F> struct ForElements {
  Pieces pieces;
  F f;
  template <class T> HEDDLE_DEVICE void run(on_gpu::Thread& thread, const Chunk& chunk) const {
    T* const data = static_cast<T*>(chunk.piece->data);
    T* const other = static_cast<T*>(chunk.piece->other);
    const auto change = f.template of<T>();
    for (long long i = chunk.begin + thread.rank(); i < chunk.end; i += kSumThreads) change(data, other, i);
  }
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long first = pieces.all[0].first_chunk;
    for (long long at = thread.block_index().x; at < pieces.chunks; at += thread.grid_dim().x) {
      const Chunk chunk = chunk_of(pieces, first + at);
      if (chunk.piece->wide)
        run<double>(thread, chunk);
      else
        run<float>(thread, chunk);
    }
  }
};

struct Scale {
  const double* factor;
  template <class T> struct Of {
    T by;
    bool changes;
    HEDDLE_DEVICE void operator()(T* x, T*, long long i) const {
      if (changes) x[i] *= by;
    }
  };
  template <class T> HEDDLE_DEVICE Of<T> of() const { return {static_cast<T>(*factor), *factor < 1}; }
};

struct ClipValues {
  double most;
  template <class T> struct Of {
    T most;
    HEDDLE_DEVICE void operator()(T* x, T*, long long i) const {  // NaN stays
      const T value = x[i];
      x[i] = value > most ? most : value < -most ? -most : value;
    }
  };
  template <class T> HEDDLE_DEVICE Of<T> of() const { return {static_cast<T>(most)}; }
};

struct FindNonfinite {
  int* nonfinite;
  template <class T> struct Of {
    int* nonfinite;
    HEDDLE_DEVICE void operator()(T* x, T*, long long i) const {  // of inf and NaN it is NaN
      if (x[i] * T{0} != T{0}) on_gpu::atomic_store(nonfinite, 1);
    }
  };
  template <class T> HEDDLE_DEVICE Of<T> of() const { return {nonfinite}; }
};

struct Unscale {
  double factor;
  const int* nonfinite;
  template <class T> struct Of {
    T by;
    bool skips;
    HEDDLE_DEVICE void operator()(T* x, T*, long long i) const { x[i] = skips ? T{0} : x[i] * by; }
  };
  template <class T> HEDDLE_DEVICE Of<T> of() const { return {static_cast<T>(factor), *nonfinite != 0}; }
};

struct Average {
  double share;
  template <class T> struct Of {
    T share;
    HEDDLE_DEVICE void operator()(T* x, T* other, long long i) const { x[i] += share * (other[i] - x[i]); }
  };
  template <class T> HEDDLE_DEVICE Of<T> of() const { return {static_cast<T>(share)}; }
};

struct Swap {
  template <class T> struct Of {
    HEDDLE_DEVICE void operator()(T* x, T* other, long long i) const {
      const T value = x[i];
      x[i] = other[i];
      other[i] = value;
    }
  };
  template <class T> HEDDLE_DEVICE Of<T> of() const { return {}; }
};

struct SquareSums {
  Pieces pieces;
  double* sums;
  template <class T> HEDDLE_DEVICE static double of(on_gpu::Thread& thread, const Chunk& chunk) {
    const T* const x = static_cast<const T*>(chunk.piece->data);
    double sum = 0;
    for (long long i = chunk.begin + thread.rank(); i < chunk.end; i += kSumThreads)
      sum += static_cast<double>(x[i]) * x[i];
    return sum;
  }
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long first = pieces.all[0].first_chunk;
    for (long long at = thread.block_index().x; at < pieces.chunks; at += thread.grid_dim().x) {
      const Chunk chunk = chunk_of(pieces, first + at);
      const double sum = chunk.piece->wide ? of<double>(thread, chunk) : of<float>(thread, chunk);
      const double total = block_sum(thread, sum);
      if (thread.rank() == 0) sums[first + at] = total;
    }
  }
};

struct Norm {
  const double* sums;
  long long count;
  double max_norm;
  void* norm;
  bool wide;
  double* factor;
  FaultSlot* refuse;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    double sum = 0;
    for (long long i = thread.rank(); i < count; i += kSumThreads) sum += sums[i];
    sum = block_sum(thread, sum);
    if (thread.rank() != 0) return;
    const double total = std::sqrt(sum);
    const bool finite = total * 0 == 0;
    if (!finite && refuse) report(thread, refuse, 0, on_gpu::bits_as<unsigned long long>(total));
    if (wide)
      *static_cast<double*>(norm) = total;
    else
      *static_cast<float*>(norm) = static_cast<float>(total);
    *factor = finite ? max_norm / (total + 1e-6) : 1;
  }
};

struct Clear {
  int* nonfinite;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    if (thread.rank() == 0) *nonfinite = 0;
  }
};

struct Flag {
  const int* nonfinite;
  float* flag;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    if (thread.rank() == 0) *flag = static_cast<float>(*nonfinite);
  }
};

template <class K> const char* launch_blocks(void* stream, long long blocks, const K& kernel) {
  if (blocks == 0) return nullptr;
  const unsigned most = blocks < (1 << 16) ? static_cast<unsigned>(blocks) : 1u << 16;
  const cudaError_t status =
      on_gpu::launch(static_cast<cudaStream_t>(stream), dim3(most), dim3(kSumThreads), 0, kernel);
  if (status == cudaSuccess) return nullptr;
  cudaGetLastError();
  return cudaGetErrorString(status);
}
template <class F> const char* for_elements(void* stream, const Pieces& pieces, const F& f) {
  return launch_blocks(stream, pieces.chunks, ForElements<F>{pieces, f});
}

}  // namespace

const char* launch_square_sums(void* stream, const Pieces& pieces, double* sums) {
  return launch_blocks(stream, pieces.chunks, SquareSums{pieces, sums});
}
const char* launch_norm(void* stream, const double* sums, long long count, double max_norm, void* norm,
                        bool wide, double* factor, FaultSlot* refuse_nonfinite) {
  return launch_blocks(stream, 1, Norm{sums, count, max_norm, norm, wide, factor, refuse_nonfinite});
}
const char* launch_scale(void* stream, const Pieces& pieces, const double* factor) {
  return for_elements(stream, pieces, Scale{factor});
}
const char* launch_clip_values(void* stream, const Pieces& pieces, double most) {
  return for_elements(stream, pieces, ClipValues{most});
}
const char* launch_clear(void* stream, int* nonfinite) { return launch_blocks(stream, 1, Clear{nonfinite}); }
const char* launch_find_nonfinite(void* stream, const Pieces& pieces, int* nonfinite) {
  return for_elements(stream, pieces, FindNonfinite{nonfinite});
}
const char* launch_unscale(void* stream, const Pieces& pieces, double factor, const int* nonfinite) {
  return for_elements(stream, pieces, Unscale{factor, nonfinite});
}
const char* launch_flag(void* stream, const int* nonfinite, float* flag) {
  return launch_blocks(stream, 1, Flag{nonfinite, flag});
}
const char* launch_average(void* stream, const Pieces& pieces, double share) {
  return for_elements(stream, pieces, Average{share});
}
const char* launch_swap(void* stream, const Pieces& pieces) { return for_elements(stream, pieces, Swap{}); }

}  // namespace heddle::cuda_kernels
