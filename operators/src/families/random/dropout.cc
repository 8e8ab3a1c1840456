#include <string>
#include <vector>

#include <heddle/dropout.h>
#include <heddle/elementwise.h>
#include <heddle/number_text.h>
#include <heddle/shape_ops.h>

#include "autograd/record.h"
#include "core/operator.h"
#include "core/operator_table.h"
#include "families/random/dropout_kernels.h"

namespace heddle {
namespace {

NDArray masked(const char* name, const NDArray& x, const NDArray& mask, double scale) {
  const NDArray y = operators_detail::make_result(x, x.shape(), x.dtype());
  auto* kernel = operators_detail::kernel_for<DropoutKernel>("dropout", x);
  array_push(name, {x, mask}, {y}, [=](const KernelContext& context) { kernel(context, x, mask, scale, y); });
  return y;
}

}  // namespace

NDArray dropout(const NDArray& x, double p, Generator& generator, bool training, Where where) {
  const CallSite site(where);
  operators_detail::check_arrays("dropout", {&x});
  operators_detail::check_floating("dropout", x);
  if (!(p >= 0 && p <= 1)) throw InvalidArgument("dropout: p is " + number_text(p) + "; wanted 0 to 1");
  if (!training || p == 0) return x;
  if (is_half(x.dtype())) return cast(dropout(operators_detail::wide(x), p, generator, training), x.dtype());
  EngineScope scope(x.engine());
  const NDArray mask = generator.bernoulli(x.shape(), 1 - p, x.dtype(), x.device());
  const double scale = p == 1 ? 0 : 1 / (1 - p);
  NDArray y = masked("dropout", x.detach().contiguous(), mask, scale);
  if (recording({&x})) {
    const NDArray kept = save_for_backward(mask);
    operators_detail::record_op("dropout", y, {x}, {kept}, [=](const NDArray& grad_output) {
      if (operators_detail::differentiating_gradient())
        return std::vector<NDArray>{grad_output * kept * scale};
      return std::vector<NDArray>{masked("dropout_backward", grad_output.detach().contiguous(), mask, scale)};
    });
  }
  return y;
}

HEDDLE_OPERATORS(dropout) {
  table.family("Neural networks");
  table.add("dropout",
            +[](const NDArray& x, double p, bool training, Generator& generator, Where where) {
              return dropout(x, p, generator, training, where);
            },
            {"Zeroes each element with probability p and multiplies the rest by 1 / (1 - p); x itself unless "
             "`training` and p > 0. Drawn from `generator`, or for None from the thread's own.",
             {{"x", DTypes::floating}, {"p", 0.5}, {"training", true}, {"generator", kNone}},
             "that of x",
             kDifferentiable});
}

}  // namespace heddle
