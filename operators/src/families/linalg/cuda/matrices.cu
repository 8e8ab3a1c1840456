// Copies, transposes and checks of matrices.
#include <limits>

#include "cuda/report.h"
#include "cuda/team.h"
#include "families/linalg/cuda/kernels.h"
#include "gpu/layout.h"

namespace heddle::cuda_kernels::linalg {
namespace {

template <class K> const char* over(void* stream, long long elements, const K& kernel) {
  if (elements == 0) return nullptr;
  return on_gpu::launch_over(static_cast<cudaStream_t>(stream), elements, kernel);
}

// A block a matrix.
template <class K> const char* blocks(void* stream, long long count, const K& kernel) {
  if (count == 0) return nullptr;
  return launch_grid(stream, dim3(static_cast<unsigned>(count)), kernel);
}

HEDDLE_DEVICE inline bool holds(Triangle part, long long r, long long c) {
  if (part == Triangle::whole) return true;
  if (part == Triangle::lower) return c <= r;
  return part == Triangle::upper ? c >= r : c < r;
}

template <class T> struct Copy {
  CopyMatrices<T> copy;

  HEDDLE_DEVICE T value(long long matrix, long long r, long long c) const {
    if (copy.skip && copy.skip[matrix] != 0) return T(0);
    if (!copy.from) return T(r == c ? 1 : 0);
    if (!holds(copy.part, r, c)) return T(copy.part == Triangle::unit_lower && r == c ? 1 : 0);
    const Steps& at = copy.from_steps;
    return copy.from[matrix * at.matrix + r * at.row + c * at.column];
  }
  // Neighbouring threads write neighbouring elements.
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long each = copy.rows * copy.columns;
    const Steps& to = copy.to_steps;
    const bool by_rows = to.column <= to.row;
    const long long inner = by_rows ? copy.columns : copy.rows;
    for (long long e = thread.global_index(); e < each * copy.count; e += thread.global_size()) {
      const long long matrix = e / each, in = e % each;
      const long long r = by_rows ? in / inner : in % inner, c = by_rows ? in % inner : in / inner;
      copy.to[matrix * to.matrix + r * to.row + c * to.column] = value(matrix, r, c);
    }
  }
};

template <class T> struct Check {
  const T* x;
  long long rows, columns;
  Triangle part;
  bool nan_alone, add;
  int* states;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long matrix = thread.block_index().x, each = rows * columns;
    int wrong = 0;
    for (long long e = thread.rank(); e < each; e += thread.size()) {
      const T value = x[matrix * each + e];
      if (!holds(part, e / columns, e % columns)) continue;
      if (nan_alone ? value != value : value - value != 0) wrong = 1;
    }
    const bool any = thread.barrier_or(wrong) != 0;
    if (thread.rank() != 0) return;
    const int before = add ? states[matrix] : 0;
    states[matrix] = any ? -1 : before;
  }
};

struct Least {
  HEDDLE_DEVICE long long operator()(long long a, long long b) const { return b < a ? b : a; }
};

template <class T> struct ZeroDiagonal {
  const T* x;
  long long n;
  int* infos;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const T* const matrix = x + thread.block_index().x * n * n;
    long long first = n;
    for (long long i = thread.rank(); i < n && first == n; i += thread.size()) {
      if (matrix[i * (n + 1)] == 0) first = i;
    }
    Team team(thread, {1, true});
    first = team.all(first, Least{});
    if (thread.rank() == 0) infos[thread.block_index().x] = first < n ? static_cast<int>(first + 1) : 0;
  }
};

struct Refuse {
  const int *states, *infos;
  long long count;
  FaultSlot* slot;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) {
      int wrong = states ? states[i] : 0;
      if (wrong == 0 && infos) wrong = infos[i];
      if (wrong != 0) report(thread, slot, i, static_cast<unsigned long long>(static_cast<long long>(wrong)));
    }
  }
};

template <class T> struct FillNan {
  T* x;
  long long elements;
  const int* states;
  int* infos;
  bool by_info;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long matrix = thread.block_index().x;
    const bool fills = states[matrix] != 0 || (by_info && infos[matrix] != 0);
    thread.barrier();  // all have read the info
    if (!fills) return;
    for (long long e = thread.rank(); e < elements; e += thread.size())
      x[matrix * elements + e] = std::numeric_limits<T>::quiet_NaN();
    if (thread.rank() == 0) infos[matrix] = 0;
  }
};

// Exchanges are made one after the other.
struct ListRows {
  const int* pivots;
  long long m, k, count;
  long long* rows;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long q = thread.global_index(); q < count; q += thread.global_size()) {
      long long* const own = rows + q * m;
      for (long long i = 0; i < m; ++i) own[i] = i;
      for (long long i = 0; i < k; ++i) {
        const long long other = pivots[q * k + i] - 1, row = own[i];
        own[i] = own[other];
        own[other] = row;
      }
    }
  }
};
template <class T> struct FillPermutation {
  const long long* rows;
  long long m, count;
  T* p;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long each = m * m;
    for (long long e = thread.global_index(); e < each * count; e += thread.global_size()) {
      const long long q = e / each, r = e % each / m, c = e % m;
      p[e] = T(rows[q * m + c] == r ? 1 : 0);
    }
  }
};

template <class T> struct Scale {
  T* x;
  long long rows, columns, count;
  const T* numbers;
  bool by_column;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long each = rows * columns;
    for (long long e = thread.global_index(); e < each * count; e += thread.global_size()) {
      const long long q = e / each, r = e % each / columns, c = e % columns;
      x[e] *= by_column ? numbers[q * columns + c] : numbers[q * rows + r];
    }
  }
};

template <class T> struct InverseValues {
  const T* s;
  long long n, count;
  T tolerance;
  T* shares;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long e = thread.global_index(); e < n * count; e += thread.global_size()) {
      const T largest = s[e / n * n], least = tolerance * largest;
      shares[e] = s[e] > least && s[e] > std::numeric_limits<T>::min() ? 1 / s[e] : T(0);
    }
  }
};

}  // namespace

template <class T> const char* launch_copy(void* stream, const CopyMatrices<T>& copy) {
  return over(stream, copy.rows * copy.columns * copy.count, Copy<T>{copy});
}
template <class T>
const char* launch_check(void* stream, const T* x, long long rows, long long columns, long long count,
                         Triangle part, bool nan_alone, bool add, int* states) {
  return blocks(stream, count, Check<T>{x, rows, columns, part, nan_alone, add, states});
}
template <class T>
const char* launch_zero_diagonal(void* stream, const T* x, long long n, long long count, int* infos) {
  return blocks(stream, count, ZeroDiagonal<T>{x, n, infos});
}
const char* launch_refuse(void* stream, const int* states, const int* infos, long long count,
                          FaultSlot* slot) {
  return over(stream, count, Refuse{states, infos, count, slot});
}
template <class T>
const char* launch_fill_nan(void* stream, T* x, long long elements, long long count, const int* states,
                            int* infos, bool by_info) {
  return blocks(stream, count, FillNan<T>{x, elements, states, infos, by_info});
}
template <class T>
const char* launch_permutation(void* stream, const int* pivots, long long m, long long k, long long count,
                               long long* rows, T* p) {
  if (const char* const problem = over(stream, count, ListRows{pivots, m, k, count, rows})) return problem;
  return over(stream, m * m * count, FillPermutation<T>{rows, m, count, p});
}
template <class T>
const char* launch_scale(void* stream, T* x, long long rows, long long columns, long long count,
                         const T* numbers, bool by_column) {
  return over(stream, rows * columns * count, Scale<T>{x, rows, columns, count, numbers, by_column});
}
template <class T>
const char* launch_inverse_values(void* stream, const T* s, long long n, long long count, double tolerance,
                                  T* shares) {
  return over(stream, n * count, InverseValues<T>{s, n, count, static_cast<T>(tolerance), shares});
}

#define HEDDLE_INSTANTIATE(T)                                                                               \
  template const char* launch_copy(void*, const CopyMatrices<T>&);                                          \
  template const char* launch_check(void*, const T*, long long, long long, long long, Triangle, bool, bool, \
                                    int*);                                                                  \
  template const char* launch_zero_diagonal(void*, const T*, long long, long long, int*);                   \
  template const char* launch_fill_nan(void*, T*, long long, long long, const int*, int*, bool);            \
  template const char* launch_permutation(void*, const int*, long long, long long, long long, long long*,   \
                                          T*);                                                              \
  template const char* launch_scale(void*, T*, long long, long long, long long, const T*, bool);            \
  template const char* launch_inverse_values(void*, const T*, long long, long long, double, T*);
HEDDLE_INSTANTIATE(float)
HEDDLE_INSTANTIATE(double)

}  // namespace heddle::cuda_kernels::linalg
