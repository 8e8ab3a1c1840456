// Factors of matrices on GPUs. The libraries see a row-major matrix as its transpose.
#include "core/kernel_table.h"
#include "families/linalg/cuda/stacks.h"

namespace heddle::cuda_kernels::linalg {

// cuSOLVER's gesvd takes matrices with at least as many rows as columns. The transpose of a wide x = u diag(s) vt is one, of which
// memory holds the factors as x's.
template <class T>
void decompose(const KernelContext& context, char job, const T* x, long long m, long long n, long long count,
               const int* skip, T* u, T* s, T* vt, int* infos) {
  const Elements<T> copy(context, m * n * count);
  const Steps rows = row_major(m, n);
  if (m <= n) {
    copy_matrices<T>(context, x, rows, copy, rows, m, n, count, Triangle::whole, skip);
    dense::gesvd<T>(context, job, n, m, copy, s, vt, u, infos, count);
    return;
  }
  copy_matrices<T>(context, x, rows, copy, column_major(m, n), m, n, count, Triangle::whole, skip);
  if (job == 'N') return dense::gesvd<T>(context, job, m, n, copy, s, nullptr, nullptr, infos, count);
  const long long us = job == 'A' ? m : n;
  const Elements<T> left(context, m * us * count), right(context, n * n * count);
  dense::gesvd<T>(context, job, m, n, copy, s, left, right, infos, count);
  copy_matrices<T>(context, left, column_major(m, us), u, row_major(m, us), m, us, count);
  copy_matrices<T>(context, right, column_major(n, n), vt, row_major(n, n), n, n, count);
}
template void decompose(const KernelContext&, char, const float*, long long, long long, long long, const int*,
                        float*, float*, float*, int*);
template void decompose(const KernelContext&, char, const double*, long long, long long, long long,
                        const int*, double*, double*, double*, int*);

namespace {

void lu_kernel(const KernelContext& context, const LinalgCall& call) {
  const Stack x(call.in[0]);
  const long long m = x.rows, n = x.columns, k = std::min(m, n), count = x.count;
  visit_matrices(call.in[0].dtype(), [&]<class T>() {
    if (k == 0 && call.out[0].size() > 0) set_identity(context, result_elements<T>(call.out[0]), m, count);
    if (k == 0 || count == 0) return;
    const Elements<T> columns(context, m * n * count);
    const Elements<int> infos(context, count), pivots(context, k * count);
    const Elements<long long> rows(context, m * count);
    const Steps steps = column_major(m, n);
    copy_matrices<T>(context, elements<T>(call.in[0]), row_major(m, n), columns, steps, m, n, count);
    dense::getrf<T>(context, m, n, columns, pivots, infos, count);  // a 0 in U is no error
    check_launch(context, launch_permutation<T>(context.stream().native(), pivots, m, k, count, rows,
                                                result_elements<T>(call.out[0])));
    copy_matrices<T>(context, columns, steps, result_elements<T>(call.out[1]), row_major(m, k), m, k, count,
                     Triangle::unit_lower);
    copy_matrices<T>(context, columns, steps, result_elements<T>(call.out[2]), row_major(k, n), k, n, count,
                     Triangle::upper);
  });
}

void qr_kernel(const KernelContext& context, const LinalgCall& call) {
  const Stack x(call.in[0]);
  const long long m = x.rows, n = x.columns, k = std::min(m, n), q = Stack(call.out[0]).columns,
                  count = x.count;
  visit_matrices(call.in[0].dtype(), [&]<class T>() {
    if (k == 0 && call.out[0].size() > 0) set_identity(context, result_elements<T>(call.out[0]), m, count);
    if (k == 0 || count == 0) return;
    const long long step = m * std::max(n, q);
    const Elements<T> columns(context, step * count), tau(context, k * count);
    const Steps steps{1, m, step};
    copy_matrices<T>(context, elements<T>(call.in[0]), row_major(m, n), columns, steps, m, n, count);
    dense::geqrf<T>(context, m, n, columns, step, tau, count);
    copy_matrices<T>(context, columns, steps, result_elements<T>(call.out[1]), row_major(q, n), q, n, count,
                     Triangle::upper);
    dense::orgqr<T>(context, m, q, k, columns, step, tau, count);
    copy_matrices<T>(context, columns, steps, result_elements<T>(call.out[0]), row_major(m, q), m, q, count);
  });
}

void svd_kernel(const KernelContext& context, const LinalgCall& call) {
  const Stack x(call.in[0]);
  const long long m = x.rows, n = x.columns, count = x.count;
  const bool alone = call.out.size() == 1;
  visit_matrices(call.in[0].dtype(), [&]<class T>() {
    T *const u = alone ? nullptr : result_elements<T>(call.out[0]), *const vt =
                                                                        alone
                                                                            ? nullptr
                                                                            : result_elements<T>(call.out[2]);
    if (call.in[0].size() == 0) {
      if (u && call.flag) set_identity(context, u, m, count);
      if (vt && call.flag) set_identity(context, vt, n, count);
      return;
    }
    const Elements<int> states(context, count), infos(context, count);
    check_elements<T>(context, call.in[0], states);
    decompose<T>(context,
                 alone       ? 'N'
                 : call.flag ? 'A'
                             : 'S',
                 elements<T>(call.in[0]), m, n, count, states, u, result_elements<T>(call.out[alone ? 0 : 1]),
                 vt, infos);
    refuse_wrong(context, call, states, infos, linalg_errors::not_found);
  });
}

// Only the triangle that counts is copied.
void eigh_kernel(const KernelContext& context, const LinalgCall& call) {
  const Stack x(call.in[0]);
  const long long n = x.rows, count = x.count;
  const bool vectors = call.out.size() == 2;
  if (call.in[0].size() == 0) return;
  visit_matrices(call.in[0].dtype(), [&]<class T>() {
    const Elements<int> states(context, count), infos(context, count);
    const Elements<T> copy(context, n * n * count);
    const Steps steps = row_major(n, n);
    const Triangle part = call.flag ? Triangle::upper : Triangle::lower;
    check_elements<T>(context, call.in[0], states, part);
    copy_matrices<T>(context, elements<T>(call.in[0]), steps, copy, steps, n, n, count, part, states);
    dense::syevd<T>(context, vectors, !call.flag, n, copy, result_elements<T>(call.out[0]), infos, count);
    if (vectors)
      copy_matrices<T>(context, copy, column_major(n, n), result_elements<T>(call.out[1]), steps, n, n,
                       count);
    refuse_wrong(context, call, states, infos, linalg_errors::not_found);
  });
}

}  // namespace
}  // namespace heddle::cuda_kernels::linalg

namespace heddle {

HEDDLE_CUDA_KERNELS(linalg_factors) {
  using namespace cuda_kernels::linalg;
  table.add<LinalgKernel>("lu", DeviceKind::cuda, lu_kernel);
  table.add<LinalgKernel>("qr", DeviceKind::cuda, qr_kernel);
  table.add<LinalgKernel>("svd", DeviceKind::cuda, svd_kernel);
  table.add<LinalgKernel>("eigh", DeviceKind::cuda, eigh_kernel);
}

}  // namespace heddle
