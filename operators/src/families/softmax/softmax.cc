#include <string>
#include <vector>

#include <heddle/elementwise.h>
#include <heddle/reduce.h>
#include <heddle/shape_ops.h>
#include <heddle/softmax.h>

#include "autograd/record.h"
#include "core/autocast.h"
#include "core/halves.h"
#include "core/operator.h"
#include "core/operator_table.h"
#include "families/indexing/places.h"
#include "families/softmax/kernels.h"
#include "families/softmax/rows.h"

namespace heddle {
namespace {

using operators_detail::kernel_for;
using operators_detail::make_result;
using operators_detail::record_op;

// Computes the gradient by operators, which a tape can record, instead of by the kernel.
NDArray by_operators(const NDArray& g, const NDArray& y, int axis, bool log) {
  if (log) return g - exp(y) * sum(g, {axis}, true);
  return y * (g - sum(g * y, {axis}, true));
}

NDArray softmax_of(const char* name, const NDArray& x, int axis, bool log) {
  operators_detail::check_arrays(name, {&x});
  operators_detail::check_floating(name, x);
  const DType dtype = x.dtype();
  if (is_half(dtype) && !operators_detail::reads_halves(x))
    return operators_detail::narrowed(softmax_of(name, operators_detail::wide(x), axis, log), dtype);
  const int along = ndarray_detail::axis_of(name, axis, x.shape());
  SoftmaxProblem problem{1, x.shape()[along], 1, log};
  for (int i = 0; i < along; ++i) problem.outer *= x.shape()[i];
  for (int i = along + 1; i < x.ndim(); ++i) problem.inner *= x.shape()[i];
  const NDArray source = x.detach().contiguous();
  // The gradient of halves needs a result that is not rounded.
  const bool is_rounded = is_half(dtype) && !recording({&x}) && !Autocast::active();
  NDArray y = make_result(x, x.shape(), is_half(dtype) && !is_rounded ? DType::f32 : dtype);
  const NDArray out = y.detach();
  auto* kernel = kernel_for<SoftmaxKernel>("softmax", x);
  array_push(name, {source}, {out},
             recordable([=](const KernelContext& context) { kernel(context, problem, source, out); }));
  if (recording({&x})) {
    const NDArray of_y = save_for_backward(y);
    record_op(name, y, {x}, {of_y}, [=](const NDArray& grad_output) {
      if (operators_detail::differentiating_gradient())
        return std::vector{cast(by_operators(grad_output, of_y, along, log), dtype)};
      const NDArray grad = grad_output.detach().contiguous();
      const NDArray x_grad = make_result(grad, grad.shape(), dtype);
      auto* backward_kernel = kernel_for<SoftmaxBackwardKernel>("softmax_backward", grad);
      array_push("softmax_backward", {grad, out}, {x_grad}, recordable([=](const KernelContext& context) {
                   backward_kernel(context, problem, grad, out, x_grad);
                 }));
      return std::vector<NDArray>{x_grad};
    });
  }
  return is_half(dtype) && !is_rounded ? operators_detail::narrowed(y, dtype) : y;
}

void check_cross_entropy(const NDArray& logits, const NDArray& labels) {
  operators_detail::check_arrays("cross_entropy", {&logits, &labels});
  operators_detail::check_floating("cross_entropy", logits);
  if (!operators_detail::are_rows_of_classes(logits, labels)) {
    throw InvalidArgument("cross_entropy: logits " + logits.shape().to_string() + ", labels " +
                          labels.shape().to_string() +
                          "; wanted (..., C) with at least one class, and (...)");
  }
  operators_detail::check_indices("cross_entropy", "labels", labels);
}

// The labels in a dtype that the kernels take: u8, i32 or i64.
NDArray labels_of_kernels(const NDArray& labels) {
  const DType dtype = labels.dtype();
  const bool known = dtype == DType::i32 || dtype == DType::i64 || dtype == DType::u8;
  return (known ? labels.detach() : labels.detach().astype(DType::i64)).contiguous();
}

}  // namespace

NDArray softmax(const NDArray& x, int axis, Where where) {
  const CallSite site(where);
  return softmax_of("softmax", x, axis, false);
}

NDArray log_softmax(const NDArray& x, int axis, Where where) {
  const CallSite site(where);
  return softmax_of("log_softmax", x, axis, true);
}

NDArray cross_entropy(const NDArray& logits, const NDArray& labels, Where where) {
  const CallSite site(where);
  check_cross_entropy(logits, labels);
  const DType dtype = logits.dtype();
  if (is_half(dtype) && !operators_detail::reads_halves(logits))
    return operators_detail::narrowed(cross_entropy(operators_detail::wide(logits), labels), dtype);
  if (logits.ndim() != 2)
    return cross_entropy(operators_detail::rows_of_classes(logits), reshape(labels, {labels.size()}));
  const NDArray x = logits.detach().contiguous(), classes = labels_of_kernels(labels);
  const DType result = is_half(dtype) ? DType::f32 : dtype;
  const NDArray probabilities = make_result(x, x.shape(), result);
  NDArray loss = make_result(x, {}, result);
  auto* kernel = kernel_for<CrossEntropyKernel>("cross_entropy", x);
  array_push("cross_entropy", {x, classes}, {probabilities, loss},
             [=, out = loss.detach()](const KernelContext& context) {
               kernel(context, x, classes, probabilities, out);
             });
  if (recording({&logits})) {
    const NDArray of_logits = save_for_backward(logits), shares = save_for_backward(probabilities);
    record_op("cross_entropy", loss, {logits}, {of_logits, shares, classes}, [=](const NDArray& grad_output) {
      if (operators_detail::differentiating_gradient()) {
        const std::int64_t rows = of_logits.shape()[0], count = of_logits.shape()[1];
        const NDArray chosen = one_hot(classes.astype(DType::i64), count, grad_output.dtype());
        const NDArray shares_now = softmax(operators_detail::wide(of_logits));
        return std::vector{cast((shares_now - chosen) * (grad_output / static_cast<double>(rows)), dtype)};
      }
      const NDArray grad = grad_output.detach();
      const NDArray x_grad = make_result(grad, probabilities.shape(), dtype);
      auto* backward_kernel = kernel_for<CrossEntropyBackwardKernel>("cross_entropy_backward", grad);
      array_push("cross_entropy_backward", {grad, probabilities, classes}, {x_grad},
                 recordable([=](const KernelContext& context) {
                   backward_kernel(context, grad, probabilities, classes, x_grad);
                 }));
      return std::vector<NDArray>{x_grad};
    });
  }
  return is_half(dtype) ? operators_detail::narrowed(loss, dtype) : loss;
}

HEDDLE_OPERATORS(softmax) {
  table.family("Neural networks");
  const Argument x = {"x", DTypes::floating}, axis = {"axis", -1};
  table.add("softmax", softmax,
            {"exp(x) / sum(exp(x)) along `axis`.", {x, axis}, "that of x", kDifferentiable});
  table.add("log_softmax", log_softmax,
            {"The logarithm of softmax(x, axis).", {x, axis}, "that of x", kDifferentiable});
  table.add("cross_entropy", cross_entropy,
            {"The mean over the rows of logits (..., C) of -log_softmax(logits)[label], with labels (...): a "
             "scalar.",
             {{"logits", DTypes::floating}, {"labels", DTypes::integers}},
             "that of logits",
             kDifferentiable});
}

}  // namespace heddle
