// Determinants on GPUs and their first two derivatives, from singular values: derivatives exist where there is no inverse.
#include "core/kernel_table.h"
#include "families/linalg/cuda/stacks.h"

namespace heddle::cuda_kernels::linalg {
namespace {

// getrf's factors of copies of square matrices.
template <class T> struct Factors {
  Factors(const KernelContext& context, const T* x, long long n, long long count)
      : lu(context, n * n * count), pivots(context, n * count) {
    if (n == 0) return;
    const Elements<int> infos(context, count);
    const Steps steps = row_major(n, n);
    copy_matrices<T>(context, x, steps, lu, steps, n, n, count);
    dense::getrf<T>(context, n, n, lu, pivots, infos, count);
  }
  Elements<T> lu;
  Elements<int> pivots;
};

void det_kernel(const KernelContext& context, const LinalgCall& call) {
  const Stack x(call.in[0]);
  if (x.count == 0) return;
  visit_matrices(call.in[0].dtype(), [&]<class T>() {
    const Factors<T> factors(context, elements<T>(call.in[0]), x.rows, x.count);
    T* const logarithms = call.flag ? result_elements<T>(call.out[1]) : nullptr;
    check_launch(context, launch_det<T>(context.stream().native(), factors.lu, factors.pivots, x.rows,
                                        x.count, result_elements<T>(call.out[0]), logarithms));
  });
}

// x = U diag(s) V^T, and the sign of the determinant of U V^T. Matrices that are not finite count as 0, and get a result of NaN.
template <class T> struct SingularValues {
  SingularValues(const KernelContext& on, const NDArray& x)
      : context(on),
        n(Stack(x).rows),
        count(Stack(x).count),
        u(on, n * n * count),
        vt(on, n * n * count),
        free(on, n * n * count),
        s(on, n * count),
        signs(on, count),
        states(on, count),
        infos(on, count) {
    check_elements<T>(on, x, states);
    decompose<T>(on, 'S', elements<T>(x), n, n, count, states, u, s, vt, infos);
    multiply<T>(on, n, n, n, count, u, false, vt, false, free);
    const Factors<T> factors(on, free, n, count);
    check_launch(on, launch_sign<T>(on.stream().native(), factors.lu, factors.pivots, n, count, signs));
  }
  void products(bool single, T* to) const {
    const Elements<double> before(context, 2 * n * count * (single ? 1 : n));
    check_launch(context,
                 launch_products<T>(context.stream().native(), s, signs, n, count, single, before, to));
  }
  void end(const LinalgCall& call, T* y) const {
    check_launch(context,
                 launch_fill_nan<T>(context.stream().native(), y, n * n, count, states, infos, false));
    refuse_wrong(context, call, nullptr, infos, linalg_errors::no_singular_values);
  }

  const KernelContext& context;
  long long n, count;
  Elements<T> u, vt, free, s, signs;
  Elements<int> states, infos;
};

void det_gradient_kernel(const KernelContext& context, const LinalgCall& call) {
  if (call.in[0].size() == 0) return;
  visit_matrices(call.in[0].dtype(), [&]<class T>() {
    const SingularValues<T> of(context, call.in[0]);
    T* const y = result_elements<T>(call.out[0]);
    const Elements<T> products(context, of.n * of.count);
    of.products(true, products);
    check_launch(context,
                 launch_scale<T>(context.stream().native(), of.u, of.n, of.n, of.count, products, true));
    multiply<T>(context, of.n, of.n, of.n, of.count, of.u, false, of.vt, false, y);
    of.end(call, y);
  });
}

void det_second_gradient_kernel(const KernelContext& context, const LinalgCall& call) {
  if (call.in[0].size() == 0) return;
  visit_matrices(call.in[0].dtype(), [&]<class T>() {
    const SingularValues<T> of(context, call.in[0]);
    T* const y = result_elements<T>(call.out[0]);
    const long long n = of.n, count = of.count;
    const Elements<T> between(context, n * n * count), products(context, n * n * count);
    multiply<T>(context, n, n, n, count, elements<T>(call.in[1]), false, of.vt, true, of.free);
    multiply<T>(context, n, n, n, count, of.u, true, of.free, false, between);
    of.products(false, products);
    check_launch(context, launch_second<T>(context.stream().native(), products, between, n, count, of.free));
    multiply<T>(context, n, n, n, count, of.free, false, of.vt, false, between);
    multiply<T>(context, n, n, n, count, of.u, false, between, false, y);
    of.end(call, y);
  });
}

}  // namespace
}  // namespace heddle::cuda_kernels::linalg

namespace heddle {

HEDDLE_CUDA_KERNELS(linalg_det) {
  using namespace cuda_kernels::linalg;
  table.add<LinalgKernel>("det", DeviceKind::cuda, det_kernel);
  table.add<LinalgKernel>("det_gradient", DeviceKind::cuda, det_gradient_kernel);
  table.add<LinalgKernel>("det_second_gradient", DeviceKind::cuda, det_second_gradient_kernel);
}

}  // namespace heddle
