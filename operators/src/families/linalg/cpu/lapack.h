// LAPACK's routines, on the calling thread: matrices are column-major and have no gaps. T is float or double. Each returns
// LAPACK's info: 0, or more if the values make the result impossible. Throws Error for sizes beyond 32 bits.
#pragma once

#include <cstdint>

namespace heddle::cpu_kernels {

int lapack_int(std::int64_t size);

// a = U^T U in a's upper triangle.
template <class T> int potrf(int n, T* a);

// a (m, n) = P L U; row i was swapped with row pivots[i] - 1.
template <class T> int getrf(int m, int n, T* a, int* pivots);
// The inverse from getrf's results, in their place.
template <class T> int getri(int n, T* a, const int* pivots);
// b (n, k) = the solution for b, from getrf's results; of the transposed matrix if `transposed`.
template <class T> int getrs(bool transposed, int n, int k, const T* a, const int* pivots, T* b);
// b (n, k) = the solution for b and a triangular a.
template <class T> int trtrs(bool upper, bool transposed, int n, int k, const T* a, T* b);

// a (m, n) = Q R: R in the upper triangle, below it what orgqr makes Q (m, q) of, from k = min(m, n) reflections.
template <class T> int geqrf(int m, int n, T* a, T* tau);
template <class T> int orgqr(int m, int q, int k, T* a, const T* tau);

// a (m, n), which is lost, = u diag(s) vt. job: 'A' for u (m, m) and vt (n, n), 'S' for u (m, k) and vt (k, n), 'N' for s alone.
template <class T> int gesdd(char job, int m, int n, T* a, T* s, T* u, T* vt);

// a's eigenvalues in w, rising; a becomes the eigenvectors if `vectors`, else it is lost.
template <class T> int syevd(bool vectors, bool upper, int n, T* a, T* w);

// b (max(m, n), k), of which m rows are given: n rows of the least-squares solutions for a (m, n), which is lost.
template <class T> int gelsd(int m, int n, int k, T* a, T* b, T rcond);

}  // namespace heddle::cpu_kernels
