// LAPACK's routines, on the calling thread: matrices are column-major and have no gaps. T is float or double.
// Each returns LAPACK's info: 0, or a positive number if the values make the result impossible.
#pragma once

#include <cstdint>

namespace heddle::cpu_kernels {

int lapack_int(std::int64_t size);

// a = U^T U in a's upper triangle.
template <class T> int potrf(int n, T* a);

// a (m, n) = P L U; row i was swapped with row pivots[i] - 1.
template <class T> int getrf(int m, int n, T* a, int* pivots);
// Replaces getrf's results a by the inverse.
template <class T> int getri(int n, T* a, const int* pivots);
// Solves a x = b, or a^T x = b if `transposed`, from getrf's results; b (n, k) becomes x.
template <class T> int getrs(bool transposed, int n, int k, const T* a, const int* pivots, T* b);
// Solves a x = b, or a^T x = b if `transposed`, for a triangular a; b (n, k) becomes x.
template <class T> int trtrs(bool upper, bool transposed, int n, int k, const T* a, T* b);

// a (m, n) = Q R, from k = min(m, n) reflections: R in a's upper triangle, below it and in tau the
// reflections, of which orgqr makes Q (m, q).
template <class T> int geqrf(int m, int n, T* a, T* tau);
template <class T> int orgqr(int m, int q, int k, T* a, const T* tau);

// u diag(s) vt = a (m, n), which is overwritten. job: 'A' for u (m, m) and vt (n, n), 'S' for u (m, k) and vt
// (k, n), 'N' for s alone.
template <class T> int gesdd(char job, int m, int n, T* a, T* s, T* u, T* vt);

// w = a's eigenvalues, ascending; a becomes the eigenvectors if `vectors`, else is overwritten.
template <class T> int syevd(bool vectors, bool upper, int n, T* a, T* w);

// Minimizes |a x - b|; a (m, n) is overwritten. b (max(m, n), k) holds the right-hand sides in m rows, on
// return x in n rows.
template <class T> int gelsd(int m, int n, int k, T* a, T* b, T rcond);

}  // namespace heddle::cpu_kernels
