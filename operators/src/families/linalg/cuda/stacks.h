// What the rules of linear algebra for GPUs share: stacks of matrices, products of them, and errors.
#pragma once

#include <algorithm>

#include <heddle/dtype.h>

#include "cuda/arrays.h"
#include "cuda/data_fault.h"
#include "cuda/gemm.h"
#include "cuda/scratch.h"
#include "families/linalg/cuda/dense.h"
#include "families/linalg/cuda/kernels.h"
#include "families/linalg/kernels.h"

namespace heddle::cuda_kernels::linalg {

// The matrices of an array.
struct Stack {
  explicit Stack(const NDArray& x)
      : count(1), rows(x.shape()[x.ndim() - 2]), columns(x.shape()[x.ndim() - 1]) {
    for (int axis = 0; axis < x.ndim() - 2; ++axis) count *= x.shape()[axis];
  }
  long long count, rows, columns;
};

// Calls body.operator()<T>() with the type of a linear algebra array.
template <class Body> void visit_matrices(DType dtype, const Body& body) {
  if (dtype == DType::f32)
    body.template operator()<float>();
  else
    body.template operator()<double>();
}

template <class T> const T* elements(const NDArray& x) { return static_cast<const T*>(read_address(x)); }
template <class T> T* result_elements(const NDArray& x) { return static_cast<T*>(written_address(x)); }

inline std::size_t bytes_of(long long count, std::size_t each) {
  return static_cast<std::size_t>(std::max(count, 1ll)) * each;
}

// Scratch memory for `count` elements.
template <class T> class Elements {
 public:
  Elements(const KernelContext& context, long long count)
      : memory_(context, "scratch memory of a factorization", bytes_of(count, sizeof(T))) {}
  operator T*() const { return memory_.as<T>(); }

 private:
  Scratch memory_;
};

constexpr Steps row_major(long long rows, long long columns) { return {columns, 1, rows * columns}; }
constexpr Steps column_major(long long rows, long long columns) { return {1, rows, rows * columns}; }

template <class T>
void copy_matrices(const KernelContext& context, const T* from, Steps from_steps, T* to, Steps to_steps,
                   long long rows, long long columns, long long count, Triangle part = Triangle::whole,
                   const int* skip = nullptr) {
  const CopyMatrices<T> copy{from, from_steps, to, to_steps, rows, columns, count, part, skip};
  check_launch(context, launch_copy(context.stream().native(), copy));
}
template <class T> void set_identity(const KernelContext& context, T* x, long long n, long long count) {
  const Steps steps = row_major(n, n);
  copy_matrices<T>(context, nullptr, steps, x, steps, n, n, count);
}

// d (m, n) = a (m, k) b (k, n) for each of `count` matrices, row-major; memory holds the transposes of a or b where told.
template <class T>
void multiply(const KernelContext& context, long long m, long long n, long long k, long long count,
              const T* a, bool transposed_a, const T* b, bool transposed_b, T* d) {
  Gemm g{};
  g.m = m, g.n = n, g.k = k;
  g.a = {a, transposed_a ? m : k, transposed_a};
  g.b = {b, transposed_b ? k : n, transposed_b};
  g.batches.dims = 1;
  g.batches.sizes[0] = count;
  g.batches.a[0] = m * k;
  g.batches.b[0] = k * n;
  g.d = d;
  g.d_stride = n;
  g.d_batch = m * n;
  g.type = g.d_type = static_cast<unsigned char>(sizeof(T) == sizeof(float) ? DType::f32 : DType::f64);
  g.alpha = 1;
  gemm(context, g);
}

// Lets the op fail with the CPU's words for the first matrix whose state, or else info, is not 0. Either list may be null.
inline void refuse_wrong(const KernelContext& context, const LinalgCall& call, const int* states,
                         const int* infos, linalg_errors::Explanation explain) {
  const DataFault fault(context);
  const NDArray& x = call.in[0];
  check_launch(context,
               launch_refuse(context.stream().native(), states, infos, Stack(x).count, fault.slot()));
  fault.check(context, [op = call.op, shape = x.shape(), explain](const FaultSlot& found) {
    linalg_errors::refuse(op, shape, found.place,
                          explain(static_cast<int>(static_cast<long long>(found.value))));
  });
}

// States of launch_check() for all elements of an array, or a part of them.
template <class T>
void check_elements(const KernelContext& context, const NDArray& x, int* states,
                    Triangle part = Triangle::whole, bool nan_alone = false, bool add = false) {
  const Stack all(x);
  check_launch(context, launch_check(context.stream().native(), elements<T>(x), all.rows, all.columns,
                                     all.count, part, nan_alone, add, states));
}

// x (m, n) = u diag(s) vt, all row-major and not empty. job: 'S' for u (m, k) and vt (k, n), 'A' for all of u (m, m) and vt (n, n), 'N'
// for s alone. Matrices that `skip` names count as 0.
template <class T>
void decompose(const KernelContext& context, char job, const T* x, long long m, long long n, long long count,
               const int* skip, T* u, T* s, T* vt, int* infos);

}  // namespace heddle::cuda_kernels::linalg
