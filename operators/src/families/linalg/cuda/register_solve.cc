// Linear equations on GPUs. The libraries see a row-major matrix as its transpose.
#include "core/kernel_table.h"
#include "families/linalg/cuda/stacks.h"

namespace heddle::cuda_kernels::linalg {
namespace {

// A matrix with NaN gives NaN, as on the CPU, whatever the library makes of it.
void cholesky_kernel(const KernelContext& context, const LinalgCall& call) {
  const Stack x(call.in[0]);
  const long long n = x.rows;
  if (call.out[0].size() == 0) return;
  visit_matrices(call.in[0].dtype(), [&]<class T>() {
    T* const l = result_elements<T>(call.out[0]);
    const Elements<int> infos(context, x.count), states(context, x.count);
    const Steps steps = row_major(n, n);
    check_elements<T>(context, call.in[0], states, Triangle::lower, true);
    copy_matrices<T>(context, elements<T>(call.in[0]), steps, l, steps, n, n, x.count, Triangle::whole,
                     states);
    dense::potrf<T>(context, n, l, infos, x.count);
    check_launch(context,
                 launch_fill_nan<T>(context.stream().native(), l, n * n, x.count, states, infos, false));
    copy_matrices<T>(context, l, steps, l, steps, n, n, x.count, Triangle::lower);
    refuse_wrong(context, call, nullptr, infos, linalg_errors::not_positive_definite);
  });
}

void solve_kernel(const KernelContext& context, const LinalgCall& call) {
  const Stack a(call.in[0]);
  const long long n = a.rows, k = Stack(call.in[1]).columns, count = a.count;
  if (call.in[0].size() == 0) return;
  visit_matrices(call.in[0].dtype(), [&]<class T>() {
    const Elements<int> infos(context, count), pivots(context, n * count);
    const Elements<T> factors(context, n * n * count);
    const Steps square = row_major(n, n);
    copy_matrices<T>(context, elements<T>(call.in[0]), square, factors, square, n, n, count);
    dense::getrf<T>(context, n, n, factors, pivots, infos, count);
    if (k > 0) {
      const Elements<T> columns(context, n * k * count);
      const Steps rows = row_major(n, k), turned = column_major(n, k);
      copy_matrices<T>(context, elements<T>(call.in[1]), rows, columns, turned, n, k, count);
      dense::getrs<T>(context, true, n, k, factors, pivots, columns, count);
      copy_matrices<T>(context, columns, turned, result_elements<T>(call.out[0]), rows, n, k, count);
    }
    refuse_wrong(context, call, nullptr, infos, linalg_errors::singular);
  });
}

// a x = b is x^T a^T = b^T, in which memory holds all matrices as the library takes them.
void solve_triangular_kernel(const KernelContext& context, const LinalgCall& call) {
  const Stack a(call.in[0]);
  const long long n = a.rows, k = Stack(call.in[1]).columns;
  if (call.in[0].size() == 0) return;
  visit_matrices(call.in[0].dtype(), [&]<class T>() {
    const T* const triangle = elements<T>(call.in[0]);
    const Elements<int> infos(context, a.count);
    check_launch(context, launch_zero_diagonal(context.stream().native(), triangle, n, a.count, infos));
    if (k > 0) {
      T* const x = result_elements<T>(call.out[0]);
      const Steps steps = row_major(n, k);
      copy_matrices(context, elements<T>(call.in[1]), steps, x, steps, n, k, a.count);
      dense::trsm<T>(context, !call.flag, k, n, triangle, x, a.count);
    }
    refuse_wrong(context, call, nullptr, infos, linalg_errors::singular);
  });
}

// The inverse solves the equation with the identity on the right. A matrix with NaN gives NaN.
void inv_kernel(const KernelContext& context, const LinalgCall& call) {
  const Stack x(call.in[0]);
  const long long n = x.rows;
  if (call.in[0].size() == 0) return;
  visit_matrices(call.in[0].dtype(), [&]<class T>() {
    T* const y = result_elements<T>(call.out[0]);
    const Elements<int> infos(context, x.count), states(context, x.count), pivots(context, n * x.count);
    const Elements<T> factors(context, n * n * x.count);
    const Steps steps = row_major(n, n);
    check_elements<T>(context, call.in[0], states, Triangle::whole, true);
    copy_matrices<T>(context, elements<T>(call.in[0]), steps, factors, steps, n, n, x.count, Triangle::whole,
                     states);
    dense::getrf<T>(context, n, n, factors, pivots, infos, x.count);
    set_identity(context, y, n, x.count);
    dense::getrs<T>(context, false, n, n, factors, pivots, y, x.count);
    check_launch(context,
                 launch_fill_nan<T>(context.stream().native(), y, n * n, x.count, states, infos, call.flag));
    refuse_wrong(context, call, nullptr, infos, linalg_errors::singular);
  });
}

// x = V diag(1 / s) U^T b, without the singular values that count as 0.
template <class T>
void solve_least_squares(const KernelContext& context, const LinalgCall& call, const int* states) {
  const Stack a(call.in[0]);
  const long long m = a.rows, n = a.columns, k = Stack(call.in[1]).columns, count = a.count,
                  least = std::min(m, n);
  const Elements<T> u(context, m * least * count), vt(context, least * n * count), s(context, least * count),
      shares(context, least * count), inner(context, least * k * count);
  const Elements<int> infos(context, count);
  void* const stream = context.stream().native();
  decompose<T>(context, 'S', elements<T>(call.in[0]), m, n, count, states, u, s, vt, infos);
  multiply<T>(context, least, k, m, count, u, true, elements<T>(call.in[1]), false, inner);
  check_launch(context, launch_inverse_values<T>(stream, s, least, count, call.number, shares));
  check_launch(context, launch_scale<T>(stream, inner, least, k, count, shares, false));
  multiply<T>(context, n, k, least, count, vt, true, inner, false, result_elements<T>(call.out[0]));
  refuse_wrong(context, call, states, infos, linalg_errors::not_solved);
}

void lstsq_kernel(const KernelContext& context, const LinalgCall& call) {
  const Stack a(call.in[0]);
  if (a.count == 0) return;
  visit_matrices(call.in[0].dtype(), [&]<class T>() {
    const Elements<int> states(context, a.count);
    check_elements<T>(context, call.in[0], states);
    check_elements<T>(context, call.in[1], states, Triangle::whole, false, true);
    const NDArray& x = call.out[0];
    if (x.size() > 0 && a.rows > 0) return solve_least_squares<T>(context, call, states);
    if (x.size() > 0) {
      const long long n = a.columns, k = Stack(x).columns;
      multiply<T>(context, n, k, 0, a.count, nullptr, false, nullptr, false, result_elements<T>(x));
    }
    refuse_wrong(context, call, states, nullptr, linalg_errors::not_solved);
  });
}

}  // namespace
}  // namespace heddle::cuda_kernels::linalg

namespace heddle {

HEDDLE_CUDA_KERNELS(linalg_solve) {
  using namespace cuda_kernels::linalg;
  table.add<LinalgKernel>("cholesky", DeviceKind::cuda, cholesky_kernel);
  table.add<LinalgKernel>("solve", DeviceKind::cuda, solve_kernel);
  table.add<LinalgKernel>("solve_triangular", DeviceKind::cuda, solve_triangular_kernel);
  table.add<LinalgKernel>("inv", DeviceKind::cuda, inv_kernel);
  table.add<LinalgKernel>("lstsq", DeviceKind::cuda, lstsq_kernel);
}

}  // namespace heddle
