// The exponential of matrices on GPUs, computed in f64.
#include "core/kernel_table.h"
#include "families/linalg/cuda/expm.h"
#include "families/linalg/cuda/stacks.h"

namespace heddle::cuda_kernels::linalg {
namespace {

void expm_kernel(const KernelContext& context, const LinalgCall& call) {
  const Stack x(call.in[0]);
  const long long n = x.rows, count = x.count;
  if (call.in[0].size() == 0) return;
  const Elements<double> memory(context, 8 * n * n * count), diagonals(context, 2 * n * count);
  const Elements<ExpmState> states(context, count);
  const Elements<int> pivots(context, n * count), infos(context, count);
  const Expm of{n, count, memory, states, diagonals, diagonals + n * count};
  void* const stream = context.stream().native();
  const auto product = [&](int a, int b, int to) {
    multiply<double>(context, n, n, n, count, of.block(a), false, of.block(b), false, of.block(to));
  };
  const auto powers = [&] {
    product(0, 0, 1);
    product(1, 1, 2);
    product(2, 1, 3);
  };
  visit_matrices(call.in[0].dtype(), [&]<class T>() {
    check_launch(context, expm_begin(stream, of, elements<T>(call.in[0])));
    powers();
    product(2, 2, 4);
    product(2, 3, 5);
    check_launch(context, expm_scale(stream, of));
    powers();
    check_launch(context, expm_first_sums(stream, of));
    product(3, 6, 4);
    product(3, 7, 5);
    check_launch(context, expm_last_sums(stream, of));
    product(0, 5, 6);
    check_launch(context, expm_combine(stream, of));
    // The libraries see the transposes, which commute: they solve for the transpose of the result.
    dense::getrf<double>(context, n, n, of.block(4), pivots, infos, count);
    dense::getrs<double>(context, false, n, n, of.block(4), pivots, of.block(7), count);
    check_launch(context, expm_end(stream, of, result_elements<T>(call.out[0])));
  });
}

}  // namespace
}  // namespace heddle::cuda_kernels::linalg

namespace heddle {

HEDDLE_CUDA_KERNELS(linalg_expm) {
  table.add<LinalgKernel>("expm", DeviceKind::cuda, cuda_kernels::linalg::expm_kernel);
}

}  // namespace heddle
