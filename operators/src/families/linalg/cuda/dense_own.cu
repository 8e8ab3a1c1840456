// One block computes a matrix, or up to kColumns right-hand sides of it. Column by column, with the updates of all others by all
// threads: right for every size, fast for small ones.
#include <cmath>

#include "cuda/team.h"
#include "families/linalg/cuda/dense_own.h"
#include "gpu/layout.h"

namespace heddle::cuda_kernels {
namespace {

constexpr int kColumns = 32;

template <class K> const char* launch_blocks(void* stream, long long blocks, const K& kernel) {
  return launch_grid(stream, dim3(static_cast<unsigned>(blocks)), kernel);
}

template <class T> struct Potrf {
  long long n;
  T* all;
  int* infos;

  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    T* const a = all + thread.block_index().x * n * n;
    int info = 0;
    for (long long j = 0; j < n && info == 0; ++j) {
      const T pivot = a[j * n + j];
      thread.barrier();  // all have read it
      if (!(pivot > 0)) {
        info = static_cast<int>(j + 1);
        continue;
      }
      const T root = std::sqrt(pivot);
      for (long long c = j + thread.rank(); c < n; c += thread.size())
        a[c * n + j] = c == j ? root : a[c * n + j] / root;
      thread.barrier();
      const long long rest = n - j - 1;
      for (long long e = thread.rank(); e < rest * rest; e += thread.size()) {
        const long long r = j + 1 + e % rest, c = j + 1 + e / rest;
        if (r <= c) a[c * n + r] -= a[r * n + j] * a[c * n + j];
      }
      thread.barrier();
    }
    if (thread.rank() == 0) infos[thread.block_index().x] = info;
  }
};

struct Candidate {
  double size;
  long long row;
};
struct Larger {
  HEDDLE_DEVICE Candidate operator()(Candidate a, Candidate b) const {
    return b.size > a.size || (b.size == a.size && b.row < a.row) ? b : a;
  }
};

template <class T> struct Getrf {
  long long m, n;
  T* all;
  int *all_pivots, *infos;

  // The row of the first element of column j with the largest absolute value, from row j on. NaN is not found.
  HEDDLE_DEVICE long long pivot_row(on_gpu::Thread& thread, const T* a, long long j) const {
    Candidate own{-1, j};
    for (long long i = j + thread.rank(); i < m; i += thread.size()) {
      const double size = std::fabs(static_cast<double>(a[j * m + i]));
      if (size > own.size) own = {size, i};
    }
    Team team(thread, {1, true});
    return team.all(own, Larger{}).row;
  }
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long matrix = thread.block_index().x, least = m < n ? m : n;
    T* const a = all + matrix * m * n;
    int* const pivots = all_pivots + matrix * least;
    int info = 0;
    for (long long j = 0; j < least; ++j) {
      const long long row = pivot_row(thread, a, j);
      if (thread.rank() == 0) pivots[j] = static_cast<int>(row + 1);
      for (long long c = thread.rank(); row != j && c < n; c += thread.size()) {
        const T other = a[c * m + j];
        a[c * m + j] = a[c * m + row];
        a[c * m + row] = other;
      }
      thread.barrier();
      const T pivot = a[j * m + j];
      if (pivot == 0) {
        if (info == 0) info = static_cast<int>(j + 1);
        continue;  // all elements below are 0, or NaN
      }
      for (long long i = j + 1 + thread.rank(); i < m; i += thread.size()) a[j * m + i] /= pivot;
      thread.barrier();
      const long long rows = m - j - 1, columns = n - j - 1;
      for (long long e = thread.rank(); e < rows * columns; e += thread.size()) {
        const long long i = j + 1 + e % rows, c = j + 1 + e / rows;
        a[c * m + i] -= a[j * m + i] * a[c * m + j];
      }
      thread.barrier();
    }
    if (thread.rank() == 0) infos[matrix] = info;
  }
};

// A triangle of a matrix, or of its transpose, and right-hand sides: element (i, c) lies at b[i * step + c * column].
template <class T> struct Triangle {
  const T* a;
  long long n;
  bool transposed, unit, forward;

  HEDDLE_DEVICE T at(long long i, long long j) const { return transposed ? a[i * n + j] : a[j * n + i]; }

  HEDDLE_DEVICE void solve(on_gpu::Thread& thread, T* b, long long step, long long column,
                           long long columns) const {
    for (long long done = 0; done < n; ++done) {
      const long long j = forward ? done : n - 1 - done, rest = n - 1 - done, first = forward ? j + 1 : 0;
      if (!unit) {
        for (long long c = thread.rank(); c < columns; c += thread.size())
          b[j * step + c * column] /= at(j, j);
      }
      thread.barrier();
      for (long long e = thread.rank(); e < rest * columns; e += thread.size()) {
        const long long i = first + e % rest, c = e / rest;
        b[i * step + c * column] -= at(i, j) * b[j * step + c * column];
      }
      thread.barrier();
    }
  }
};

// The part of the right-hand sides that a block has.
struct Share {
  HEDDLE_DEVICE Share(on_gpu::Thread& thread, long long k) {
    const long long shares = (k + kColumns - 1) / kColumns;
    matrix = thread.block_index().x / shares;
    first = thread.block_index().x % shares * kColumns;
    columns = k - first < kColumns ? k - first : kColumns;
  }
  long long matrix, first, columns;
};
long long shares_of(long long k, long long count) { return (k + kColumns - 1) / kColumns * count; }

template <class T> struct Getrs {
  bool transposed;
  long long n, k;
  const T* factors;
  const int* all_pivots;
  T* right;

  HEDDLE_DEVICE void exchange(on_gpu::Thread& thread, T* b, const int* pivots, long long columns) const {
    for (long long c = thread.rank(); c < columns; c += thread.size()) {
      for (long long done = 0; done < n; ++done) {
        const long long i = transposed ? n - 1 - done : done, other = pivots[i] - 1;
        const T value = b[c * n + i];
        b[c * n + i] = b[c * n + other];
        b[c * n + other] = value;
      }
    }
    thread.barrier();
  }
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const Share share(thread, k);
    const T* const a = factors + share.matrix * n * n;
    const int* const pivots = all_pivots + share.matrix * n;
    T* const b = right + (share.matrix * k + share.first) * n;
    if (!transposed) exchange(thread, b, pivots, share.columns);
    const Triangle<T> lower{a, n, transposed, true, !transposed}, upper{a, n, transposed, false, transposed};
    (transposed ? upper : lower).solve(thread, b, 1, n, share.columns);
    (transposed ? lower : upper).solve(thread, b, 1, n, share.columns);
    if (transposed) exchange(thread, b, pivots, share.columns);
  }
};

// x a = b is a^T x^T = b^T.
template <class T> struct Trsm {
  bool upper;
  long long k, n;
  const T* factors;
  T* right;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const Share share(thread, k);
    const Triangle<T> triangle{factors + share.matrix * n * n, n, true, false, upper};
    triangle.solve(thread, right + share.matrix * k * n + share.first, k, 1, share.columns);
  }
};

template <class T> struct ListPointers {
  T* first;
  long long step;
  T** pointers;
  long long count;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < count; i += thread.global_size())
      pointers[i] = first + i * step;
  }
};

template <class T> struct TakeVectors {
  long long m, n, columns;
  const T *all, *v;
  T *u, *vt;
  long long count;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long of_u = m * columns, of_v = n * n;
    for (long long e = thread.global_index(); e < of_u * count; e += thread.global_size())
      u[e] = all[e / of_u * m * m + e % of_u];
    for (long long e = thread.global_index(); e < of_v * count; e += thread.global_size()) {
      const long long r = e % of_v % n, c = e % of_v / n;
      vt[e] = v[e / of_v * of_v + r * n + c];
    }
  }
};

}  // namespace

template <class T> const char* own_potrf(void* stream, long long n, T* a, int* infos, long long count) {
  return launch_blocks(stream, count, Potrf<T>{n, a, infos});
}
template <class T>
const char* own_getrf(void* stream, long long m, long long n, T* a, int* pivots, int* infos,
                      long long count) {
  return launch_blocks(stream, count, Getrf<T>{m, n, a, pivots, infos});
}
template <class T>
const char* own_getrs(void* stream, bool transposed, long long n, long long k, const T* a, const int* pivots,
                      T* b, long long count) {
  return launch_blocks(stream, shares_of(k, count), Getrs<T>{transposed, n, k, a, pivots, b});
}
template <class T>
const char* own_trsm(void* stream, bool upper, long long k, long long n, const T* a, T* b, long long count) {
  return launch_blocks(stream, shares_of(k, count), Trsm<T>{upper, k, n, a, b});
}
template <class T>
const char* list_pointers(void* stream, T* first, long long step, T** pointers, long long count) {
  return on_gpu::launch_over(static_cast<cudaStream_t>(stream), count,
                             ListPointers<T>{first, step, pointers, count});
}
template <class T>
const char* take_vectors(void* stream, long long m, long long n, long long columns, const T* all, const T* v,
                         T* u, T* vt, long long count) {
  return on_gpu::launch_over(static_cast<cudaStream_t>(stream), (m * columns + n * n) * count,
                             TakeVectors<T>{m, n, columns, all, v, u, vt, count});
}

#define HEDDLE_INSTANTIATE(T)                                                                             \
  template const char* own_potrf(void*, long long, T*, int*, long long);                                  \
  template const char* own_getrf(void*, long long, long long, T*, int*, int*, long long);                 \
  template const char* own_getrs(void*, bool, long long, long long, const T*, const int*, T*, long long); \
  template const char* own_trsm(void*, bool, long long, long long, const T*, T*, long long);              \
  template const char* list_pointers(void*, T*, long long, T**, long long);                               \
  template const char* take_vectors(void*, long long, long long, long long, const T*, const T*, T*, T*,   \
                                    long long);
HEDDLE_INSTANTIATE(float)
HEDDLE_INSTANTIATE(double)

}  // namespace heddle::cuda_kernels
