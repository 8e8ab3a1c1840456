// Heddle's own kernels for dense.h, one block a matrix, in plain types. They return why they could not be launched; null if they
// were.
#pragma once

namespace heddle::cuda_kernels {

template <class T> const char* own_potrf(void* stream, long long n, T* a, int* infos, long long count);
template <class T>
const char* own_getrf(void* stream, long long m, long long n, T* a, int* pivots, int* infos, long long count);
template <class T>
const char* own_getrs(void* stream, bool transposed, long long n, long long k, const T* a, const int* pivots,
                      T* b, long long count);
template <class T>
const char* own_trsm(void* stream, bool upper, long long k, long long n, const T* a, T* b, long long count);

// pointers[i] = the address of matrix i: `step` elements behind that of the one before.
template <class T>
const char* list_pointers(void* stream, T* first, long long step, T** pointers, long long count);
// vt (n, n) = the transposes of v, and u (m, columns) = the first columns of the matrices `all` (m, m).
template <class T>
const char* take_vectors(void* stream, long long m, long long n, long long columns, const T* all, const T* v,
                         T* u, T* vt, long long count);

}  // namespace heddle::cuda_kernels
