// LAPACK's routines for batches of matrices on a GPU, by cuSOLVER and cuBLAS, or by Heddle's own kernels where those are not
// installed. T is float or double. Matrices are column-major, dense, and lie one behind the other. `infos` has a number for each
// matrix, as LAPACK's: 0, or a positive number if the values make the result impossible. The host does not wait.
//
// All throw Error if a call fails, and OutOfMemory. No size is 0.
#pragma once

#include <heddle/kernel_context.h>

namespace heddle::cuda_kernels::dense {

// a = U^T U in a's upper triangle; the lower one may have any values afterwards.
template <class T> void potrf(const KernelContext& context, long long n, T* a, int* infos, long long count);

// a (m, n) = P L U; row i was swapped with row pivots[i] - 1. pivots: min(m, n) for each matrix.
template <class T>
void getrf(const KernelContext& context, long long m, long long n, T* a, int* pivots, int* infos,
           long long count);
// Solves a x = b, or a^T x = b if `transposed`, from getrf's results; b (n, k) becomes x.
template <class T>
void getrs(const KernelContext& context, bool transposed, long long n, long long k, const T* a,
           const int* pivots, T* b, long long count);
// Solves x a = b for a triangular a (n, n); b (k, n) becomes x.
template <class T>
void trsm(const KernelContext& context, bool upper, long long k, long long n, const T* a, T* b,
          long long count);

// The next ones have no own kernels: without the libraries they throw Error, which says what was looked for.

// a (m, n) = Q R, from k = min(m, n) reflections, of which orgqr makes Q (m, q). Matrices of `a` lie `step` elements apart. tau: k
// for each matrix.
template <class T>
void geqrf(const KernelContext& context, long long m, long long n, T* a, long long step, T* tau,
           long long count);
template <class T>
void orgqr(const KernelContext& context, long long m, long long q, long long k, T* a, long long step,
           const T* tau, long long count);

// u diag(s) vt = a (m, n), m >= n, which is overwritten. job: 'A' for u (m, m), 'S' for u (m, n); vt is (n, n). 'N' for s alone.
template <class T>
void gesvd(const KernelContext& context, char job, long long m, long long n, T* a, T* s, T* u, T* vt,
           int* infos, long long count);

// w = a's eigenvalues, ascending; a becomes the eigenvectors if `vectors`, else is overwritten.
template <class T>
void syevd(const KernelContext& context, bool vectors, bool upper, long long n, T* a, T* w, int* infos,
           long long count);

// Which of the two computes: `both` is the rule above. For tests.
enum class Way { both, own };
void choose(Way way);

}  // namespace heddle::cuda_kernels::dense
