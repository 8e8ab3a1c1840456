// What stands for cuSOLVER and cuBLAS on the emulated GPU: functions that refuse wrong arguments as those libraries do, and whose work
// is a kernel of one thread that calls LAPACK, with the caller's workspace. Pointers and infos are read and written when the kernel runs.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "families/linalg/cuda/dense_functions.h"
#include "gpu/kernel.h"

#define HEDDLE_LAPACK(T, p)                                                                                  \
  void p##potrf_(const char* uplo, const int* n, T* a, const int* lda, int* info, std::size_t);              \
  void p##getrf_(const int* m, const int* n, T* a, const int* lda, int* pivots, int* info);                  \
  void p##getrs_(const char* trans, const int* n, const int* k, const T* a, const int* lda,                  \
                 const int* pivots, T* b, const int* ldb, int* info, std::size_t);                           \
  void p##geqrf_(const int* m, const int* n, T* a, const int* lda, T* tau, T* work, const int* lwork,        \
                 int* info);                                                                                 \
  void p##orgqr_(const int* m, const int* n, const int* k, T* a, const int* lda, const T* tau, T* work,      \
                 const int* lwork, int* info);                                                               \
  void p##gesvd_(const char* job_u, const char* job_vt, const int* m, const int* n, T* a, const int* lda,    \
                 T* s, T* u, const int* ldu, T* vt, const int* ldvt, T* work, const int* lwork, int* info,   \
                 std::size_t, std::size_t);                                                                  \
  void p##syev_(const char* job, const char* uplo, const int* n, T* a, const int* lda, T* w, T* work,        \
                const int* lwork, int* info, std::size_t, std::size_t);                                      \
  void p##trsm_(const char* side, const char* uplo, const char* trans, const char* diag, const int* m,       \
                const int* n, const T* alpha, const T* a, const int* lda, T* b, const int* ldb, std::size_t, \
                std::size_t, std::size_t, std::size_t);

extern "C" {
[[gnu::weak]] void openblas_set_num_threads(int);
HEDDLE_LAPACK(float, s)
HEDDLE_LAPACK(double, d)
}

namespace heddle::cuda_kernels::dense {
namespace {

constexpr int kInvalid = 7, kSolverInvalid = 3, kFailed = 99;

struct Handle {
  void* stream = nullptr;
};

// LAPACK's functions of one type.
template <class T> struct Lapack;
#define HEDDLE_OF(T, p)                      \
  template <> struct Lapack<T> {             \
    static constexpr auto potrf = p##potrf_; \
    static constexpr auto getrf = p##getrf_; \
    static constexpr auto getrs = p##getrs_; \
    static constexpr auto geqrf = p##geqrf_; \
    static constexpr auto orgqr = p##orgqr_; \
    static constexpr auto gesvd = p##gesvd_; \
    static constexpr auto syev = p##syev_;   \
    static constexpr auto trsm = p##trsm_;   \
  }
HEDDLE_OF(float, s);
HEDDLE_OF(double, d);

// A kernel of one thread that calls body(), whose members are the arguments.
template <class Body> struct OneThread {
  Body body;
  void operator()(on_gpu::Thread&) const {
    if (openblas_set_num_threads) openblas_set_num_threads(1);  // a fiber has one thread
    body();
  }
};
template <class Body> int enqueue(void* handle, const Body& body) {
  const OneThread<Body> kernel{body};
  const auto stream = static_cast<cudaStream_t>(static_cast<Handle*>(handle)->stream);
  return on_gpu::launch(stream, dim3(1), dim3(1), 0, kernel) == cudaSuccess ? kSuccess : kFailed;
}

const char* letter(int uplo) { return uplo == kUpper ? "U" : "L"; }
const char* letter_of_op(int op) { return op == kPlain ? "N" : "T"; }
bool is_uplo(int uplo) { return uplo == kUpper || uplo == kLower; }
bool is_op(int op) { return op == kPlain || op == kTransposed; }
bool fits(int rows, int columns, int stride) {
  return rows >= 0 && columns >= 0 && stride >= std::max(1, rows);
}

// The workspace that LAPACK's function wants, from what it writes.
template <class T> int wanted_by(T first) { return std::max(1, static_cast<int>(std::ceil(first))); }

template <class T> int potrf_size(Solver, int uplo, int n, T*, int lda, int* size) {
  *size = 3 * n;
  return is_uplo(uplo) && fits(n, n, lda) ? kSuccess : kSolverInvalid;
}
template <class T> int potrf(Solver on, int uplo, int n, T* a, int lda, T* work, int size, int* info) {
  if (!is_uplo(uplo) || !fits(n, n, lda) || size < 3 * n || !work) return kSolverInvalid;
  return enqueue(on, [=] {
    std::fill_n(work, size, T(-1));
    Lapack<T>::potrf(letter(uplo), &n, a, &lda, info, 1);
  });
}
// The other triangle is used as a workspace.
template <class T> int potrf_batched(Solver on, int uplo, int n, T** a, int lda, int* infos, int count) {
  if (!is_uplo(uplo) || !fits(n, n, lda) || count < 1) return kSolverInvalid;
  return enqueue(on, [=] {
    for (int i = 0; i < count; ++i) {
      Lapack<T>::potrf(letter(uplo), &n, a[i], &lda, infos + i, 1);
      for (int c = 0; c < n; ++c) {
        for (int r = 0; r < n; ++r)
          if (uplo == kUpper ? r > c : r < c) a[i][c * lda + r] = T(-77);
      }
    }
  });
}
template <class T> int getrf_size(Solver, int m, int n, T*, int lda, int* size) {
  *size = 2 * m + n;
  return fits(m, n, lda) ? kSuccess : kSolverInvalid;
}
template <class T> int getrf(Solver on, int m, int n, T* a, int lda, T* work, int* pivots, int* info) {
  if (!fits(m, n, lda) || !work || !pivots) return kSolverInvalid;
  return enqueue(on, [=] {
    std::fill_n(work, 2 * m + n, T(-1));
    Lapack<T>::getrf(&m, &n, a, &lda, pivots, info);
  });
}
template <class T>
int getrs(Solver on, int op, int n, int k, const T* a, int lda, const int* pivots, T* b, int ldb, int* info) {
  if (!is_op(op) || !fits(n, n, lda) || !fits(n, k, ldb)) return kSolverInvalid;
  return enqueue(on, [=] { Lapack<T>::getrs(letter_of_op(op), &n, &k, a, &lda, pivots, b, &ldb, info, 1); });
}
template <class T> int geqrf_size(Solver, int m, int n, T* a, int lda, int* size) {
  T wanted = 0, tau = 0;
  int info = 0;
  constexpr int kAsk = -1;
  Lapack<T>::geqrf(&m, &n, a, &lda, &tau, &wanted, &kAsk, &info);
  *size = wanted_by(wanted);
  return info == 0 ? kSuccess : kSolverInvalid;
}
template <class T> int geqrf(Solver on, int m, int n, T* a, int lda, T* tau, T* work, int size, int* info) {
  if (!fits(m, n, lda) || size < n) return kSolverInvalid;
  return enqueue(on, [=] { Lapack<T>::geqrf(&m, &n, a, &lda, tau, work, &size, info); });
}
template <class T> int orgqr_size(Solver, int m, int n, int k, const T* a, int lda, const T* tau, int* size) {
  T wanted = 0;
  int info = 0;
  constexpr int kAsk = -1;
  Lapack<T>::orgqr(&m, &n, &k, const_cast<T*>(a), &lda, tau, &wanted, &kAsk, &info);
  *size = wanted_by(wanted);
  return info == 0 ? kSuccess : kSolverInvalid;
}
template <class T>
int orgqr(Solver on, int m, int n, int k, T* a, int lda, const T* tau, T* work, int size, int* info) {
  if (!fits(m, n, lda) || n > m || k > n || size < n) return kSolverInvalid;
  return enqueue(on, [=] { Lapack<T>::orgqr(&m, &n, &k, a, &lda, tau, work, &size, info); });
}

template <class T> int gesvd_workspace(int m, int n) {
  T wanted = 0, nothing = 0;
  int info = 0;
  constexpr int kAsk = -1;
  Lapack<T>::gesvd("A", "A", &m, &n, &nothing, &m, &nothing, &nothing, &m, &nothing, &n, &wanted, &kAsk,
                   &info, 1, 1);
  return wanted_by(wanted);
}
template <class T> int gesvd_size(Solver, int m, int n, int* size) {
  if (m < n || n < 1) return kSolverInvalid;  // "gesvd only supports m >= n"
  *size = gesvd_workspace<T>(m, n);
  return kSuccess;
}
template <class T>
int gesvd(Solver on, signed char job_u, signed char job_vt, int m, int n, T* a, int lda, T* s, T* u, int ldu,
          T* vt, int ldvt, T* work, int size, T* rest, int* info) {
  if (m < n || !fits(m, n, lda) || ldu < m || ldvt < n || size < gesvd_workspace<T>(m, n))
    return kSolverInvalid;
  if (job_u != 'N' && (!u || !vt)) return kSolverInvalid;
  return enqueue(on, [=] {
    const char first = static_cast<char>(job_u), second = static_cast<char>(job_vt);
    Lapack<T>::gesvd(&first, &second, &m, &n, a, &lda, s, u, &ldu, vt, &ldvt, work, &size, info, 1, 1);
    if (rest) std::fill_n(rest, n - 1, T(-1));
  });
}

int options_create(Options* made) {
  static int one;
  *made = &one;
  return kSuccess;
}

constexpr int kMostJacobi = 32;

template <class T>
int gesvdj_batched_size(Solver, int, int m, int n, const T*, int lda, const T*, const T*, int ldu, const T*,
                        int ldv, int* size, Options options, int count) {
  const bool right = m >= 1 && n >= 1 && m <= kMostJacobi && n <= kMostJacobi && fits(m, n, lda) &&
                     ldu >= m && ldv >= n && options && count >= 1;
  *size = 5 * count;
  return right ? kSuccess : kSolverInvalid;
}
// Whole U and V, which LAPACK computes of the matrix or of its transpose.
template <class T> void jacobi(bool vectors, int m, int n, T* a, int lda, T* s, T* u, T* v, int* info) {
  std::vector<T> copy(static_cast<std::size_t>(m * n)), vt(static_cast<std::size_t>(n * n));
  for (int c = 0; c < n; ++c) std::copy_n(a + c * lda, m, copy.data() + c * m);
  int size = gesvd_workspace<T>(m, n);
  std::vector<T> work(static_cast<std::size_t>(size));
  const char* const job = vectors ? "A" : "N";
  Lapack<T>::gesvd(job, job, &m, &n, copy.data(), &m, s, u, &m, vt.data(), &n, work.data(), &size, info, 1,
                   1);
  for (int r = 0; vectors && r < n; ++r) {
    for (int c = 0; c < n; ++c) v[c * n + r] = -vt[static_cast<std::size_t>(r * n + c)];
  }
  for (int e = 0; vectors && e < m * m; ++e) u[e] = -u[e];  // other signs than LAPACK's are right, too
  std::fill_n(a, lda * n, T(-5));
}
template <class T>
int gesvdj_batched(Solver on, int mode, int m, int n, T* a, int lda, T* s, T* u, int ldu, T* v, int ldv,
                   T* work, int size, int* infos, Options options, int count) {
  int wanted = 0;
  if (gesvdj_batched_size<T>(on, mode, m, n, a, lda, s, u, ldu, v, ldv, &wanted, options, count) ||
      size < wanted || ldu != m || ldv != n)
    return kSolverInvalid;
  return enqueue(on, [=] {
    std::fill_n(work, size, T(-1));
    for (int i = 0; i < count; ++i)
      jacobi<T>(mode == kVectors, m, n, a + i * lda * n, lda, s + i * std::min(m, n), u + i * m * m,
                v + i * n * n, infos + i);
  });
}

template <class T> int syev_workspace(int n) {
  T wanted = 0, nothing = 0;
  int info = 0;
  constexpr int kAsk = -1;
  const int lda = std::max(1, n);
  Lapack<T>::syev("V", "U", &n, &nothing, &lda, &nothing, &wanted, &kAsk, &info, 1, 1);
  return wanted_by(wanted);
}
template <class T> int syevd_size(Solver, int mode, int uplo, int n, const T*, int lda, const T*, int* size) {
  *size = syev_workspace<T>(n);
  return is_uplo(uplo) && fits(n, n, lda) && (mode == kVectors || mode == kNoVectors) ? kSuccess
                                                                                      : kSolverInvalid;
}
template <class T>
int syevd(Solver on, int mode, int uplo, int n, T* a, int lda, T* w, T* work, int size, int* info) {
  if (!is_uplo(uplo) || !fits(n, n, lda) || size < syev_workspace<T>(n)) return kSolverInvalid;
  return enqueue(on, [=] {
    Lapack<T>::syev(mode == kVectors ? "V" : "N", letter(uplo), &n, a, &lda, w, work, &size, info, 1, 1);
  });
}
template <class T>
int syevj_batched_size(Solver, int, int uplo, int n, const T*, int lda, const T*, int* size, Options options,
                       int count) {
  *size = syev_workspace<T>(n) + 3 * count;
  return is_uplo(uplo) && n >= 1 && n <= kMostJacobi && fits(n, n, lda) && options && count >= 1
             ? kSuccess
             : kSolverInvalid;
}
template <class T>
int syevj_batched(Solver on, int mode, int uplo, int n, T* a, int lda, T* w, T* work, int size, int* infos,
                  Options options, int count) {
  int wanted = 0;
  if (syevj_batched_size<T>(on, mode, uplo, n, a, lda, w, &wanted, options, count) || size < wanted)
    return kSolverInvalid;
  return enqueue(on, [=] {
    for (int i = 0; i < count; ++i) {
      T* const matrix = a + i * lda * n;
      Lapack<T>::syev(mode == kVectors ? "V" : "N", letter(uplo), &n, matrix, &lda, w + i * n, work, &size,
                      infos + i, 1, 1);
      for (int e = 0; e < n * n; ++e) matrix[e] = -matrix[e];
    }
  });
}

template <class T>
int getrf_batched(Blas on, int n, T* const* a, int lda, int* pivots, int* infos, int count) {
  if (!fits(n, n, lda) || count < 1) return kInvalid;
  return enqueue(on, [=] {
    for (int i = 0; i < count; ++i) Lapack<T>::getrf(&n, &n, a[i], &lda, pivots + i * n, infos + i);
  });
}
template <class T>
int getrs_batched(Blas on, int op, int n, int k, const T* const* a, int lda, const int* pivots, T* const* b,
                  int ldb, int* info, int count) {
  *info = !is_op(op) ? -1 : !fits(n, n, lda) ? -5 : !fits(n, k, ldb) ? -8 : 0;
  if (*info || count < 1) return kInvalid;
  return enqueue(on, [=] {
    for (int i = 0; i < count; ++i) {
      int unused = 0;
      Lapack<T>::getrs(letter_of_op(op), &n, &k, a[i], &lda, pivots + i * n, b[i], &ldb, &unused, 1);
    }
  });
}
bool trsm_fits(int side, int uplo, int op, int diagonal, int m, int n, int lda, int ldb) {
  const int size = side == kRight ? n : m;
  return is_uplo(uplo) && is_op(op) && diagonal == kNonUnit && fits(size, size, lda) && fits(m, n, ldb);
}
template <class T>
int trsm(Blas on, int side, int uplo, int op, int diagonal, int m, int n, const T* alpha, const T* a, int lda,
         T* b, int ldb) {
  if (!trsm_fits(side, uplo, op, diagonal, m, n, lda, ldb)) return kInvalid;
  return enqueue(on, [=, by = *alpha] {
    Lapack<T>::trsm(side == kRight ? "R" : "L", letter(uplo), letter_of_op(op), "N", &m, &n, &by, a, &lda, b,
                    &ldb, 1, 1, 1, 1);
  });
}
template <class T>
int trsm_batched(Blas on, int side, int uplo, int op, int diagonal, int m, int n, const T* alpha,
                 const T* const* a, int lda, T* const* b, int ldb, int count) {
  if (!trsm_fits(side, uplo, op, diagonal, m, n, lda, ldb) || count < 1) return kInvalid;
  return enqueue(on, [=, by = *alpha] {
    for (int i = 0; i < count; ++i)
      Lapack<T>::trsm(side == kRight ? "R" : "L", letter(uplo), letter_of_op(op), "N", &m, &n, &by, a[i],
                      &lda, b[i], &ldb, 1, 1, 1, 1);
  });
}

// Never destroyed, as those of the library that linear algebra keeps.
int create(void** made) {
  *made = new Handle;
  return kSuccess;
}
int set_stream(void* handle, void* stream) {
  static_cast<Handle*>(handle)->stream = stream;
  return kSuccess;
}

template <class T>
constexpr Routines<T> kRoutines{potrf_size<T>,
                                potrf<T>,
                                potrf_batched<T>,
                                getrf_size<T>,
                                getrf<T>,
                                getrs<T>,
                                geqrf_size<T>,
                                geqrf<T>,
                                orgqr_size<T>,
                                orgqr<T>,
                                gesvd_size<T>,
                                gesvd<T>,
                                gesvdj_batched_size<T>,
                                gesvdj_batched<T>,
                                syevd_size<T>,
                                syevd<T>,
                                syevj_batched_size<T>,
                                syevj_batched<T>,
                                getrf_batched<T>,
                                getrs_batched<T>,
                                trsm<T>,
                                trsm_batched<T>};

}  // namespace

const Functions* functions() {
  static constexpr Functions all{create, set_stream, options_create,   options_create,
                                 create, set_stream, kRoutines<float>, kRoutines<double>};
  return &all;
}
const std::string& missing() {
  static const std::string none;
  return none;
}

}  // namespace heddle::cuda_kernels::dense
