// Registers matmul and linear for GPUs.
#include <algorithm>

#include "core/kernel_table.h"
#include "cuda/arrays.h"
#include "cuda/gemm.h"
#include "cuda/scratch.h"
#include "families/products/cuda/kernels.h"
#include "families/products/cuda/stacks.h"
#include "families/products/kernels.h"

namespace heddle::cuda_kernels {
namespace {

constexpr check::AccessKind kRead = check::AccessKind::read, kWrite = check::AccessKind::write;

unsigned char number_of(DType dtype) { return static_cast<unsigned char>(dtype); }

const void* moved(const void* data, long long elements, DType dtype) {
  return static_cast<const std::byte*>(data) + elements * static_cast<long long>(size_of(dtype));
}

void* moved(void* data, long long elements, DType dtype) {
  return const_cast<void*>(moved(static_cast<const void*>(data), elements, dtype));
}

void matmul_kernel(const KernelContext& context, const MatmulProblem& problem, const NDArray& a,
                   const NDArray& b, const NDArray& y) {
  if (y.size() == 0 || problem.steps.empty()) return;
  Gemm g{};
  g.m = problem.m, g.n = problem.n, g.k = problem.k;
  g.a = {address(a, kRead), problem.a.stride, problem.a.transposed};
  g.b = {address(b, kRead), problem.b.stride, problem.b.transposed};
  g.d = address(y, kWrite);
  g.d_stride = problem.n;
  g.d_batch = problem.m * problem.n;
  g.type = number_of(a.dtype());
  g.d_type = number_of(y.dtype());
  g.alpha = 1;
  const auto terms = static_cast<std::size_t>(problem.terms), results = problem.steps.size() / terms;
  // The rule's lists are offsets of stacks of at most kMaxDims axes; each result has the same terms.
  const auto at_first = [&](const Gemm& form, std::size_t result, std::size_t term) {
    const MatmulProblem::Step& step = problem.steps[result * terms + term];
    Gemm one = form;
    one.a.data = moved(form.a.data, step.a, a.dtype());
    one.b.data = moved(form.b.data, step.b, b.dtype());
    one.d = moved(form.d, static_cast<long long>(result) * form.d_batch, y.dtype());
    return one;
  };
  if (find_axes(problem.steps.data(), terms, 1, g.terms) &&
      find_axes(problem.steps.data(), results, terms, g.batches)) {
    Gemm all = at_first(g, 0, 0);
    merge_axes(all);
    return gemm(context, all);
  }
  throw Error("matmul: the batches are not those of arrays");
}

void linear_kernel(const KernelContext& context, const NDArray& x, const NDArray& weight, const NDArray& bias,
                   const NDArray& y, bool relu) {
  if (y.size() == 0) return;
  const std::int64_t in = x.shape()[1], out = y.shape()[1], stride = std::max<std::int64_t>(in, 1);
  Gemm g{};
  g.m = y.shape()[0], g.n = out, g.k = in;
  g.a = {address(x, kRead), stride, false};
  g.b = {address(weight, kRead), stride, true};
  g.d = address(y, kWrite);
  g.d_stride = out;
  g.d_batch = y.size();
  g.type = g.d_type = number_of(y.dtype());
  g.alpha = 1;
  g.relu = relu;
  if (bias.defined()) {
    g.bias = address(bias, kRead);
    g.bias_type = number_of(bias.dtype());
  }
  gemm(context, g);
}

void column_sums_kernel(const KernelContext& context, const NDArray& g, const NDArray& sums) {
  if (sums.size() == 0) return;
  const ColumnSums problem{address(g, kRead), address(sums, kWrite), g.shape()[0],
                           g.shape()[1],      number_of(g.dtype()),  number_of(sums.dtype())};
  const Scratch parts(context, "sums of columns", static_cast<std::size_t>(column_sums_bytes(problem)));
  check_launch(context, launch_column_sums(context.stream().native(), problem, parts.data()));
}

void relu_mask_kernel(const KernelContext& context, const NDArray& g, const NDArray& y, const NDArray& out) {
  if (out.size() == 0) return;
  const ReluMask problem{address(g, kRead), address(y, kRead), address(out, kWrite), out.size(),
                         number_of(out.dtype())};
  check_launch(context, launch_relu_mask(context.stream().native(), problem));
}

}  // namespace
}  // namespace heddle::cuda_kernels

namespace heddle {

HEDDLE_CUDA_KERNELS(products) {
  using namespace cuda_kernels;
  table.add<MatmulKernel>("matmul", DeviceKind::cuda, matmul_kernel);
  table.add<LinearKernel>("linear", DeviceKind::cuda, linear_kernel);
  table.add<ColumnSumsKernel>("column_sums", DeviceKind::cuda, column_sums_kernel);
  table.add<ReluMaskKernel>("relu_mask", DeviceKind::cuda, relu_mask_kernel);
}

}  // namespace heddle
