#include "families/linalg/cpu/lapack.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <heddle/error.h>

#include "cpu/scratch.h"

// Fortran passes all arguments by address, followed by the lengths of the strings.
#define HEDDLE_LAPACK(T, p)                                                                                  \
  void p##potrf_(const char* uplo, const int* n, T* a, const int* lda, int* info, std::size_t);              \
  void p##getrf_(const int* m, const int* n, T* a, const int* lda, int* pivots, int* info);                  \
  void p##getri_(const int* n, T* a, const int* lda, const int* pivots, T* work, const int* lwork,           \
                 int* info);                                                                                 \
  void p##getrs_(const char* trans, const int* n, const int* k, const T* a, const int* lda,                  \
                 const int* pivots, T* b, const int* ldb, int* info, std::size_t);                           \
  void p##trtrs_(const char* uplo, const char* trans, const char* diag, const int* n, const int* k,          \
                 const T* a, const int* lda, T* b, const int* ldb, int* info, std::size_t, std::size_t,      \
                 std::size_t);                                                                               \
  void p##geqrf_(const int* m, const int* n, T* a, const int* lda, T* tau, T* work, const int* lwork,        \
                 int* info);                                                                                 \
  void p##orgqr_(const int* m, const int* n, const int* k, T* a, const int* lda, const T* tau, T* work,      \
                 const int* lwork, int* info);                                                               \
  void p##gesdd_(const char* job, const int* m, const int* n, T* a, const int* lda, T* s, T* u,              \
                 const int* ldu, T* vt, const int* ldvt, T* work, const int* lwork, int* iwork, int* info,   \
                 std::size_t);                                                                               \
  void p##syevd_(const char* job, const char* uplo, const int* n, T* a, const int* lda, T* w, T* work,       \
                 const int* lwork, int* iwork, const int* liwork, int* info, std::size_t, std::size_t);      \
  void p##gelsd_(const int* m, const int* n, const int* k, T* a, const int* lda, T* b, const int* ldb, T* s, \
                 const T* rcond, int* rank, T* work, const int* lwork, int* iwork, int* info);

extern "C" {
HEDDLE_LAPACK(float, s)
HEDDLE_LAPACK(double, d)
}

namespace heddle::cpu_kernels {

namespace {

template <class T, class S, class D> auto chosen(S* of_float, D* of_double) {
  if constexpr (std::is_same_v<T, float>) {
    return of_float;
  } else {
    return of_double;
  }
}

int stride(int rows) { return std::max(1, rows); }

// Calls call(work, length) once to learn the length, then with a buffer of that length.
template <class T, class Call> int with_work(const Call& call) {
  T wanted = 0;
  if (const int info = call(&wanted, -1)) return info;
  const int length =
      std::max(1, static_cast<int>(std::ceil(wanted * (1 + std::numeric_limits<T>::epsilon()))));
  const Scratch work(static_cast<std::size_t>(length) * sizeof(T));
  return call(work.as<T>(), length);
}

}  // namespace

int lapack_int(std::int64_t size) {
  if (size > std::numeric_limits<int>::max()) {
    throw Error("a matrix has size " + std::to_string(size) + ", beyond the 32-bit sizes of LAPACK");
  }
  return static_cast<int>(size);
}

template <class T> int potrf(int n, T* a) {
  const int lda = stride(n);
  int info = 0;
  chosen<T>(spotrf_, dpotrf_)("U", &n, a, &lda, &info, 1);
  return info;
}

template <class T> int getrf(int m, int n, T* a, int* pivots) {
  const int lda = stride(m);
  int info = 0;
  chosen<T>(sgetrf_, dgetrf_)(&m, &n, a, &lda, pivots, &info);
  return info;
}

template <class T> int getri(int n, T* a, const int* pivots) {
  const int lda = stride(n);
  return with_work<T>([&](T* work, int length) {
    int info = 0;
    chosen<T>(sgetri_, dgetri_)(&n, a, &lda, pivots, work, &length, &info);
    return info;
  });
}

template <class T> int getrs(bool transposed, int n, int k, const T* a, const int* pivots, T* b) {
  const int lda = stride(n);
  int info = 0;
  chosen<T>(sgetrs_, dgetrs_)(transposed ? "T" : "N", &n, &k, a, &lda, pivots, b, &lda, &info, 1);
  return info;
}

template <class T> int trtrs(bool upper, bool transposed, int n, int k, const T* a, T* b) {
  const int lda = stride(n);
  int info = 0;
  chosen<T>(strtrs_, dtrtrs_)(upper ? "U" : "L", transposed ? "T" : "N", "N", &n, &k, a, &lda, b, &lda, &info,
                              1, 1, 1);
  return info;
}

template <class T> int geqrf(int m, int n, T* a, T* tau) {
  const int lda = stride(m);
  return with_work<T>([&](T* work, int length) {
    int info = 0;
    chosen<T>(sgeqrf_, dgeqrf_)(&m, &n, a, &lda, tau, work, &length, &info);
    return info;
  });
}

template <class T> int orgqr(int m, int q, int k, T* a, const T* tau) {
  const int lda = stride(m);
  return with_work<T>([&](T* work, int length) {
    int info = 0;
    chosen<T>(sorgqr_, dorgqr_)(&m, &q, &k, a, &lda, tau, work, &length, &info);
    return info;
  });
}

template <class T> int gesdd(char job, int m, int n, T* a, T* s, T* u, T* vt) {
  const int lda = stride(m), least = std::min(m, n), ldvt = stride(job == 'A' ? n : least);
  std::vector<int> iwork(static_cast<std::size_t>(std::max(1, 8 * least)));
  return with_work<T>([&](T* work, int length) {
    int info = 0;
    chosen<T>(sgesdd_, dgesdd_)(&job, &m, &n, a, &lda, s, u, &lda, vt, &ldvt, work, &length, iwork.data(),
                                &info, 1);
    return info;
  });
}

template <class T> int syevd(bool vectors, bool upper, int n, T* a, T* w) {
  const int lda = stride(n), liwork = 3 + 5 * n;
  std::vector<int> iwork(static_cast<std::size_t>(liwork));
  return with_work<T>([&](T* work, int length) {
    int info = 0;
    chosen<T>(ssyevd_, dsyevd_)(vectors ? "V" : "N", upper ? "U" : "L", &n, a, &lda, w, work, &length,
                                iwork.data(), &liwork, &info, 1, 1);
    return info;
  });
}

template <class T> int gelsd(int m, int n, int k, T* a, T* b, T rcond) {
  const int lda = stride(m), ldb = stride(std::max(m, n));
  int rank = 0;
  std::vector<T> s(static_cast<std::size_t>(std::max(1, std::min(m, n))));
  std::vector<int> iwork(1);
  return with_work<T>([&](T* work, int length) {
    int info = 0;
    chosen<T>(sgelsd_, dgelsd_)(&m, &n, &k, a, &lda, b, &ldb, s.data(), &rcond, &rank, work, &length,
                                iwork.data(), &info);
    if (length < 0) iwork.resize(static_cast<std::size_t>(std::max(1, iwork[0])));
    return info;
  });
}

#define HEDDLE_INSTANTIATE(T)                                   \
  template int potrf(int, T*);                                  \
  template int getrf(int, int, T*, int*);                       \
  template int getri(int, T*, const int*);                      \
  template int getrs(bool, int, int, const T*, const int*, T*); \
  template int trtrs(bool, bool, int, int, const T*, T*);       \
  template int geqrf(int, int, T*, T*);                         \
  template int orgqr(int, int, int, T*, const T*);              \
  template int gesdd(char, int, int, T*, T*, T*, T*);           \
  template int syevd(bool, bool, int, T*, T*);                  \
  template int gelsd(int, int, int, T*, T*, T);
HEDDLE_INSTANTIATE(float)
HEDDLE_INSTANTIATE(double)

}  // namespace heddle::cpu_kernels
