// The functions of cuSOLVER and cuBLAS that linear algebra calls, as the libraries of CUDA 12 and 13 have them. Their headers are not
// needed; where there are some, tests/gpu_arrays/dense_header_test.cc compares.
//
// Matrices are column-major. Sizes of workspaces are in elements. Infos, pivots and lists of pointers are in memory of the GPU.
#pragma once

#include <string>

namespace heddle::cuda_kernels::dense {

using Solver = void*;   // cusolverDnHandle_t
using Blas = void*;     // cublasHandle_t
using Options = void*;  // gesvdjInfo_t, syevjInfo_t

constexpr int kSuccess = 0;                  // cusolverStatus_t, cublasStatus_t
constexpr int kLower = 0, kUpper = 1;        // cublasFillMode_t
constexpr int kPlain = 0, kTransposed = 1;   // cublasOperation_t
constexpr int kRight = 1;                    // cublasSideMode_t
constexpr int kNonUnit = 0;                  // cublasDiagType_t
constexpr int kNoVectors = 0, kVectors = 1;  // cusolverEigMode_t

// The routines of cuSOLVER and cuBLAS for elements of type T, float or double.
template <class T> struct Routines {
  int (*potrf_size)(Solver, int uplo, int n, T* a, int lda, int* size);
  int (*potrf)(Solver, int uplo, int n, T* a, int lda, T* work, int size, int* info);
  int (*potrf_batched)(Solver, int uplo, int n, T** a, int lda, int* infos, int count);
  int (*getrf_size)(Solver, int m, int n, T* a, int lda, int* size);
  int (*getrf)(Solver, int m, int n, T* a, int lda, T* work, int* pivots, int* info);
  int (*getrs)(Solver, int op, int n, int k, const T* a, int lda, const int* pivots, T* b, int ldb,
               int* info);
  int (*geqrf_size)(Solver, int m, int n, T* a, int lda, int* size);
  int (*geqrf)(Solver, int m, int n, T* a, int lda, T* tau, T* work, int size, int* info);
  int (*orgqr_size)(Solver, int m, int n, int k, const T* a, int lda, const T* tau, int* size);
  int (*orgqr)(Solver, int m, int n, int k, T* a, int lda, const T* tau, T* work, int size, int* info);
  int (*gesvd_size)(Solver, int m, int n, int* size);
  int (*gesvd)(Solver, signed char job_u, signed char job_vt, int m, int n, T* a, int lda, T* s, T* u,
               int ldu, T* vt, int ldvt, T* work, int size, T* rest, int* info);
  int (*gesvdj_batched_size)(Solver, int mode, int m, int n, const T* a, int lda, const T* s, const T* u,
                             int ldu, const T* v, int ldv, int* size, Options, int count);
  int (*gesvdj_batched)(Solver, int mode, int m, int n, T* a, int lda, T* s, T* u, int ldu, T* v, int ldv,
                        T* work, int size, int* infos, Options, int count);
  int (*syevd_size)(Solver, int mode, int uplo, int n, const T* a, int lda, const T* w, int* size);
  int (*syevd)(Solver, int mode, int uplo, int n, T* a, int lda, T* w, T* work, int size, int* info);
  int (*syevj_batched_size)(Solver, int mode, int uplo, int n, const T* a, int lda, const T* w, int* size,
                            Options, int count);
  int (*syevj_batched)(Solver, int mode, int uplo, int n, T* a, int lda, T* w, T* work, int size, int* infos,
                       Options, int count);
  // Of cuBLAS. The info of getrs_batched is in memory of the host: it tells of wrong arguments alone.
  int (*getrf_batched)(Blas, int n, T* const* a, int lda, int* pivots, int* infos, int count);
  int (*getrs_batched)(Blas, int op, int n, int k, const T* const* a, int lda, const int* pivots, T* const* b,
                       int ldb, int* info, int count);
  int (*trsm)(Blas, int side, int uplo, int op, int diagonal, int m, int n, const T* alpha, const T* a,
              int lda, T* b, int ldb);
  int (*trsm_batched)(Blas, int side, int uplo, int op, int diagonal, int m, int n, const T* alpha,
                      const T* const* a, int lda, T* const* b, int ldb, int count);
};

struct Functions {
  int (*solver_create)(Solver*);
  int (*solver_set_stream)(Solver, void* stream);
  int (*gesvdj_create)(Options*);
  int (*syevj_create)(Options*);
  int (*blas_create)(Blas*);
  int (*blas_set_stream)(Blas, void* stream);
  Routines<float> f32;
  Routines<double> f64;
};

// Null if the libraries are not found; missing() says why. Throws Error if one lacks a function, or if HEDDLE_CUDA_LIBRARIES
// names folders and no library is found. Real: dense_functions.cc; emulated: tests/emulated_gpu/libraries/dense.cc.
const Functions* functions();
const std::string& missing();

}  // namespace heddle::cuda_kernels::dense
