#include "families/linalg/cuda/dense.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include <heddle/error.h>

#include "cuda/arrays.h"
#include "cuda/scratch.h"
#include "families/linalg/cuda/dense_functions.h"
#include "families/linalg/cuda/dense_own.h"

namespace heddle::cuda_kernels::dense {
namespace {

// Up to these sizes one call computes all matrices of a batch. Beyond them a matrix has work for a whole GPU, and Jacobi's methods
// do not take it.
constexpr long long kSmallFactors = 512, kSmallVectors = 32;

std::atomic<Way>& way() {
  static std::atomic<Way> chosen = Way::both;
  return chosen;
}

void check(int status, const char* function) {
  if (status != kSuccess)
    throw Error(std::string(function) + " failed with status " + std::to_string(status));
}

int as_int(long long size) {
  if (size > INT_MAX)
    throw Error("a matrix has size " + std::to_string(size) + ", beyond the 32-bit sizes of cuSOLVER");
  return static_cast<int>(size);
}

// The libraries of one GPU. The mutex is held while work is enqueued, since a handle has one stream at a time.
struct Gpu {
  std::mutex mutex;
  Solver solver = nullptr;
  Blas blas = nullptr;
  Options gesvdj = nullptr, syevj = nullptr;

  void open(const Functions& call) {
    if (!solver) check(call.solver_create(&solver), "cusolverDnCreate");
    if (!blas) check(call.blas_create(&blas), "cublasCreate");
    if (!gesvdj) check(call.gesvdj_create(&gesvdj), "cusolverDnCreateGesvdjInfo");
    if (!syevj) check(call.syevj_create(&syevj), "cusolverDnCreateSyevjInfo");
  }
};

// Never destroyed: CUDA may end first.
Gpu& gpu_of(int index) {
  constexpr std::size_t kGpus = 64;
  static auto* const all = new std::vector<Gpu>(kGpus);
  return all->at(static_cast<std::size_t>(index));
}

// The libraries, for calls that enqueue work on the context's stream while the object lives.
template <class T> class Libraries {
 public:
  explicit Libraries(const KernelContext& context)
      : context_(context),
        call_(*functions()),
        gpu_(gpu_of(context.stream().device().index)),
        guard_(gpu_.mutex) {
    gpu_.open(call_);
    check(call_.solver_set_stream(gpu_.solver, context.stream().native()), "cusolverDnSetStream");
    check(call_.blas_set_stream(gpu_.blas, context.stream().native()), "cublasSetStream");
  }
  const Routines<T>* operator->() const {
    if constexpr (std::is_same_v<T, float>)
      return &call_.f32;
    else
      return &call_.f64;
  }
  Solver solver() const { return gpu_.solver; }
  Blas blas() const { return gpu_.blas; }
  Options gesvdj() const { return gpu_.gesvdj; }
  Options syevj() const { return gpu_.syevj; }

 private:
  const KernelContext& context_;
  const Functions& call_;
  Gpu& gpu_;
  std::lock_guard<std::mutex> guard_;
};

bool by_own() { return way() == Way::own || !functions(); }

void need_libraries() {
  if (functions()) return;
  throw Error("this needs NVIDIA's library for dense matrices: " + missing());
}

std::size_t bytes(long long count, std::size_t each) {
  return static_cast<std::size_t>(std::max(count, 1ll)) * each;
}

// A workspace of as many elements as a function of the library asks for.
template <class T> class Work {
 public:
  Work(const KernelContext& context, int size)
      : size_(size), memory_(context, "the workspace of a factorization", bytes(size, sizeof(T))) {}
  T* data() const { return memory_.as<T>(); }
  int size() const { return size_; }

 private:
  int size_;
  Scratch memory_;
};

// Addresses of the matrices of a batch, in memory of the GPU.
template <class T> class Pointers {
 public:
  Pointers(const KernelContext& context, const T* first, long long step, long long count)
      : memory_(context, bytes(count, sizeof(T*))) {
    check_launch(context,
                 list_pointers(context.stream().native(), const_cast<T*>(first), step, data(), count));
  }
  T** data() const { return memory_.as<T*>(); }

 private:
  Scratch memory_;
};

}  // namespace

template <class T> void potrf(const KernelContext& context, long long n, T* a, int* infos, long long count) {
  if (by_own()) return check_launch(context, own_potrf(context.stream().native(), n, a, infos, count));
  const Libraries<T> call(context);
  const int size = as_int(n);
  if (count > 1 && n <= kSmallFactors) {
    const Pointers<T> matrices(context, a, n * n, count);
    check(call->potrf_batched(call.solver(), kUpper, size, matrices.data(), size, infos, as_int(count)),
          "cusolverDnPotrfBatched");
    return;
  }
  int wanted = 0;
  check(call->potrf_size(call.solver(), kUpper, size, a, size, &wanted), "cusolverDnPotrf_bufferSize");
  const Work<T> work(context, wanted);
  for (long long i = 0; i < count; ++i)
    check(call->potrf(call.solver(), kUpper, size, a + i * n * n, size, work.data(), work.size(), infos + i),
          "cusolverDnPotrf");
}

template <class T>
void getrf(const KernelContext& context, long long m, long long n, T* a, int* pivots, int* infos,
           long long count) {
  if (by_own()) {
    check_launch(context, own_getrf(context.stream().native(), m, n, a, pivots, infos, count));
    return;
  }
  const Libraries<T> call(context);
  const int rows = as_int(m), columns = as_int(n);
  if (count > 1 && m == n && n <= kSmallFactors) {
    const Pointers<T> matrices(context, a, n * n, count);
    check(call->getrf_batched(call.blas(), columns, matrices.data(), rows, pivots, infos, as_int(count)),
          "cublasGetrfBatched");
    return;
  }
  int wanted = 0;
  check(call->getrf_size(call.solver(), rows, columns, a, rows, &wanted), "cusolverDnGetrf_bufferSize");
  const Work<T> work(context, wanted);
  for (long long i = 0; i < count; ++i) {
    check(call->getrf(call.solver(), rows, columns, a + i * m * n, rows, work.data(),
                      pivots + i * std::min(m, n), infos + i),
          "cusolverDnGetrf");
  }
}

template <class T>
void getrs(const KernelContext& context, bool transposed, long long n, long long k, const T* a,
           const int* pivots, T* b, long long count) {
  if (by_own()) {
    check_launch(context, own_getrs(context.stream().native(), transposed, n, k, a, pivots, b, count));
    return;
  }
  const Libraries<T> call(context);
  const int size = as_int(n), columns = as_int(k), op = transposed ? kTransposed : kPlain;
  if (count > 1 && n <= kSmallFactors) {
    const Pointers<T> factors(context, a, n * n, count), right(context, b, n * k, count);
    int wrong = 0;
    check(call->getrs_batched(call.blas(), op, size, columns, factors.data(), size, pivots, right.data(),
                              size, &wrong, as_int(count)),
          "cublasGetrsBatched");
    if (wrong) throw Error("cublasGetrsBatched: argument " + std::to_string(-wrong) + " is wrong");
    return;
  }
  const Scratch unused(context, sizeof(int));
  for (long long i = 0; i < count; ++i) {
    check(call->getrs(call.solver(), op, size, columns, a + i * n * n, size, pivots + i * n, b + i * n * k,
                      size, unused.as<int>()),
          "cusolverDnGetrs");
  }
}

template <class T>
void trsm(const KernelContext& context, bool upper, long long k, long long n, const T* a, T* b,
          long long count) {
  if (by_own()) {
    check_launch(context, own_trsm(context.stream().native(), upper, k, n, a, b, count));
    return;
  }
  const Libraries<T> call(context);
  const int size = as_int(n), rows = as_int(k), uplo = upper ? kUpper : kLower;
  const T one = 1;
  if (count > 1 && n <= kSmallFactors) {
    const Pointers<T> factors(context, a, n * n, count), right(context, b, n * k, count);
    check(call->trsm_batched(call.blas(), kRight, uplo, kPlain, kNonUnit, rows, size, &one, factors.data(),
                             size, right.data(), rows, as_int(count)),
          "cublasTrsmBatched");
    return;
  }
  for (long long i = 0; i < count; ++i) {
    check(call->trsm(call.blas(), kRight, uplo, kPlain, kNonUnit, rows, size, &one, a + i * n * n, size,
                     b + i * n * k, rows),
          "cublasTrsm");
  }
}

template <class T>
void geqrf(const KernelContext& context, long long m, long long n, T* a, long long step, T* tau,
           long long count) {
  need_libraries();
  const Libraries<T> call(context);
  const int rows = as_int(m), columns = as_int(n);
  int wanted = 0;
  check(call->geqrf_size(call.solver(), rows, columns, a, rows, &wanted), "cusolverDnGeqrf_bufferSize");
  const Work<T> work(context, wanted);
  const Scratch unused(context, sizeof(int));
  for (long long i = 0; i < count; ++i) {
    check(call->geqrf(call.solver(), rows, columns, a + i * step, rows, tau + i * std::min(m, n), work.data(),
                      work.size(), unused.as<int>()),
          "cusolverDnGeqrf");
  }
}

template <class T>
void orgqr(const KernelContext& context, long long m, long long q, long long k, T* a, long long step,
           const T* tau, long long count) {
  need_libraries();
  const Libraries<T> call(context);
  const int rows = as_int(m), columns = as_int(q), reflections = as_int(k);
  int wanted = 0;
  check(call->orgqr_size(call.solver(), rows, columns, reflections, a, rows, tau, &wanted),
        "cusolverDnOrgqr_bufferSize");
  const Work<T> work(context, wanted);
  const Scratch unused(context, sizeof(int));
  for (long long i = 0; i < count; ++i) {
    check(call->orgqr(call.solver(), rows, columns, reflections, a + i * step, rows, tau + i * k, work.data(),
                      work.size(), unused.as<int>()),
          "cusolverDnOrgqr");
  }
}

namespace {

// Jacobi's method gives whole orthogonal matrices, and V instead of V^T.
template <class T>
void gesvd_by_jacobi(const KernelContext& context, bool vectors, int m, int n, T* a, T* s, T* u, T* vt,
                     long long columns, int* infos, long long count) {
  const long long rows = m, width = n;
  const Scratch whole(context, bytes(rows * rows * count, sizeof(T))),
      right(context, bytes(width * width * count, sizeof(T)));
  {
    const Libraries<T> call(context);
    const int mode = vectors ? kVectors : kNoVectors;
    int wanted = 0;
    check(call->gesvdj_batched_size(call.solver(), mode, m, n, a, m, s, whole.as<T>(), m, right.as<T>(), n,
                                    &wanted, call.gesvdj(), as_int(count)),
          "cusolverDnGesvdjBatched_bufferSize");
    const Work<T> work(context, wanted);
    check(call->gesvdj_batched(call.solver(), mode, m, n, a, m, s, whole.as<T>(), m, right.as<T>(), n,
                               work.data(), work.size(), infos, call.gesvdj(), as_int(count)),
          "cusolverDnGesvdjBatched");
  }
  if (vectors)
    check_launch(context, take_vectors(context.stream().native(), rows, width, columns, whole.as<T>(),
                                       right.as<T>(), u, vt, count));
}

}  // namespace

template <class T>
void gesvd(const KernelContext& context, char job, long long m, long long n, T* a, T* s, T* u, T* vt,
           int* infos, long long count) {
  need_libraries();
  const int rows = as_int(m), columns = as_int(n);
  const long long us = job == 'A' ? m : n;
  if (count > 1 && m <= kSmallVectors)
    return gesvd_by_jacobi(context, job != 'N', rows, columns, a, s, u, vt, us, infos, count);
  const Libraries<T> call(context);
  int wanted = 0;
  check(call->gesvd_size(call.solver(), rows, columns, &wanted), "cusolverDnGesvd_bufferSize");
  const Work<T> work(context, wanted);
  const Scratch rest(context, bytes(n, sizeof(T)));
  const auto letter = static_cast<signed char>(job);
  const bool alone = job == 'N';
  for (long long i = 0; i < count; ++i) {
    check(call->gesvd(call.solver(), letter, letter, rows, columns, a + i * m * n, rows, s + i * n,
                      alone ? nullptr : u + i * m * us, rows, alone ? nullptr : vt + i * n * n, columns,
                      work.data(), work.size(), rest.as<T>(), infos + i),
          "cusolverDnGesvd");
  }
}

template <class T>
void syevd(const KernelContext& context, bool vectors, bool upper, long long n, T* a, T* w, int* infos,
           long long count) {
  need_libraries();
  const Libraries<T> call(context);
  const int size = as_int(n), mode = vectors ? kVectors : kNoVectors, uplo = upper ? kUpper : kLower;
  int wanted = 0;
  if (count > 1 && n <= kSmallVectors) {
    check(call->syevj_batched_size(call.solver(), mode, uplo, size, a, size, w, &wanted, call.syevj(),
                                   as_int(count)),
          "cusolverDnSyevjBatched_bufferSize");
    const Work<T> work(context, wanted);
    check(call->syevj_batched(call.solver(), mode, uplo, size, a, size, w, work.data(), work.size(), infos,
                              call.syevj(), as_int(count)),
          "cusolverDnSyevjBatched");
    return;
  }
  check(call->syevd_size(call.solver(), mode, uplo, size, a, size, w, &wanted), "cusolverDnSyevd_bufferSize");
  const Work<T> work(context, wanted);
  for (long long i = 0; i < count; ++i) {
    check(call->syevd(call.solver(), mode, uplo, size, a + i * n * n, size, w + i * n, work.data(),
                      work.size(), infos + i),
          "cusolverDnSyevd");
  }
}

void choose(Way chosen) { way() = chosen; }

#define HEDDLE_INSTANTIATE(T)                                                                             \
  template void potrf(const KernelContext&, long long, T*, int*, long long);                              \
  template void getrf(const KernelContext&, long long, long long, T*, int*, int*, long long);             \
  template void getrs(const KernelContext&, bool, long long, long long, const T*, const int*, T*,         \
                      long long);                                                                         \
  template void trsm(const KernelContext&, bool, long long, long long, const T*, T*, long long);          \
  template void geqrf(const KernelContext&, long long, long long, T*, long long, T*, long long);          \
  template void orgqr(const KernelContext&, long long, long long, long long, T*, long long, const T*,     \
                      long long);                                                                         \
  template void gesvd(const KernelContext&, char, long long, long long, T*, T*, T*, T*, int*, long long); \
  template void syevd(const KernelContext&, bool, bool, long long, T*, T*, int*, long long);
HEDDLE_INSTANTIATE(float)
HEDDLE_INSTANTIATE(double)

}  // namespace heddle::cuda_kernels::dense
