// Kernels of linear algebra on GPUs beside LAPACK's routines (dense.h), in plain types: nvcc compiles C++17. T is float or double.
// Arrays are stacks of `count` matrices. Functions enqueue work on a cudaStream_t and return why they could not; null if they could.
#pragma once

#include "cuda/fault_slot.h"

namespace heddle::cuda_kernels::linalg {

// Which elements of a matrix are meant: others are 0 in copies, and not looked at in checks. `unit_lower` has ones on its diagonal.
enum class Triangle : unsigned char { whole, lower, upper, unit_lower };

// The strides of a stack of matrices: elements between neighbouring rows, columns and matrices.
struct Steps {
  long long row, column, matrix;
};

// to (rows, columns) = from; without `from`, the identity. Matrices with skip[i] != 0, unless null, become 0.
template <class T> struct CopyMatrices {
  const T* from;
  Steps from_steps;
  T* to;
  Steps to_steps;
  long long rows, columns, count;
  Triangle part;
  const int* skip;
};
template <class T> const char* launch_copy(void* stream, const CopyMatrices<T>& copy);

// states[i] = -1 if an element of matrix i, row-major, is not finite, or is NaN if `nan_alone`; else 0, or with `add` what it was.
template <class T>
const char* launch_check(void* stream, const T* x, long long rows, long long columns, long long count,
                         Triangle part, bool nan_alone, bool add, int* states);
// infos[i] = 1 + the first place on the diagonal of matrix i, (n, n), that is 0; 0 if there is none.
template <class T>
const char* launch_zero_diagonal(void* stream, const T* x, long long n, long long count, int* infos);

// Reports at place i states[i], unless it is 0 or `states` null; else infos[i], unless that is 0.
const char* launch_refuse(void* stream, const int* states, const int* infos, long long count,
                          FaultSlot* slot);

// Fills matrix i with NaN if states[i] != 0, or if `by_info` and infos[i] != 0, and sets infos[i] to 0 then.
template <class T>
const char* launch_fill_nan(void* stream, T* x, long long elements, long long count, const int* states,
                            int* infos, bool by_info);

// p (m, m) = the permutation of getrf's k pivots; `rows` is memory for m numbers a matrix.
template <class T>
const char* launch_permutation(void* stream, const int* pivots, long long m, long long k, long long count,
                               long long* rows, T* p);

// From getrf's results (n, n): first[i] = the determinant; or, with `logarithms`, its sign, and the logarithm of its size.
template <class T>
const char* launch_det(void* stream, const T* factors, const int* pivots, long long n, long long count,
                       T* first, T* logarithms);
// signs[i] = that of the determinant, from getrf's results.
template <class T>
const char* launch_sign(void* stream, const T* factors, const int* pivots, long long n, long long count,
                        T* signs);
// products (n, n): element (i, j) of matrix q is signs[q] times the product of all s but s[i] and s[j]; with `single` products (1, n)
// that leave out s[j] alone. `before` is memory for 2 doubles an element.
template <class T>
const char* launch_products(void* stream, const T* s, const T* signs, long long n, long long count,
                            bool single, double* before, T* products);
// made (n, n) of the second derivative of determinants, from those products and H (n, n).
template <class T>
const char* launch_second(void* stream, const T* products, const T* h, long long n, long long count, T* made);

// x (rows, columns) times one number a column (`by_column`) or a row of each matrix.
template <class T>
const char* launch_scale(void* stream, T* x, long long rows, long long columns, long long count,
                         const T* numbers, bool by_column);
// shares[j] = 1 / s[j] if s[j] is above tolerance * s[0], else 0, for s (n).
template <class T>
const char* launch_inverse_values(void* stream, const T* s, long long n, long long count, double tolerance,
                                  T* shares);

}  // namespace heddle::cuda_kernels::linalg
