#include <cmath>
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

using namespace operators_detail;

namespace {

NDArray drop_masked(const char* name, const NDArray& x, const NDArray& mask, const DropoutMap& map) {
  NDArray y = make_result(x, x.shape(), x.dtype());
  auto* kernel = kernel_for<DropoutKernel>("dropout", x);
  array_push(name, {x, mask}, {y}, recordable([=, y = y.detach()](const KernelContext& context) {
               kernel(context, x, mask, map, y);
             }));
  return y;
}

void check_noise(const char* op, const NDArray& x) {
  check_arrays(op, {&x});
  operators_detail::check_floating(op, x);
}

void check_dropout(const char* op, const NDArray& x, double p) {
  check_noise(op, x);
  if (!(p >= 0 && p <= 1))
    throw InvalidArgument(std::string(op) + ": p is " + number_text(p) + "; wanted 0 to 1");
}

// The shape of a mask for the channels of x.
Shape channel_mask(const char* op, const NDArray& x) {
  if (x.ndim() < 2)
    throw InvalidArgument(std::string(op) + ": the array is " + x.shape().to_string() + "; want (N, C, ...)");
  Shape shape = Dims::filled(x.ndim(), 1);
  shape[0] = x.shape()[0];
  shape[1] = x.shape()[1];
  return shape;
}

// The functions as calls by name take their arguments.
template <auto function>
NDArray by_name(const NDArray& x, double p, bool training, Generator& generator, Where where) {
  return function(x, p, generator, training, where);
}

// x, checked, with a mask of this shape, whose elements are 1 with probability 1 - p.
NDArray drop(const char* op, const char* backward_op, const NDArray& x, const Shape& shape, double p,
             const DropoutMap& map, Generator& generator) {
  if (is_half(x.dtype())) return cast(drop(op, backward_op, wide(x), shape, p, map, generator), x.dtype());
  EngineScope scope(x.engine());
  const NDArray mask = generator.bernoulli(shape, 1 - p, x.dtype(), x.device());
  NDArray y = drop_masked(op, x.detach().contiguous(), mask, map);
  if (recording({&x})) {
    const NDArray kept = save_for_backward(mask);
    record_op(op, y, {x}, {kept}, [=, scale = map.scale](const NDArray& grad_output) {
      if (differentiating_gradient())
        return std::vector<NDArray>{where(equal(kept, 0), 0, grad_output * scale)};
      return std::vector<NDArray>{
          drop_masked(backward_op, grad_output.detach().contiguous(), mask, {.scale = scale})};
    });
  }
  return y;
}

DropoutMap plain_map(double p) { return {.scale = p == 1 ? 0 : 1 / (1 - p)}; }

// Keeps mean 0 and variance 1, with `least` in the place of what is dropped: selu's limit.
DropoutMap alpha_map(double p) {
  if (p == 1) return {.scale = 0};
  constexpr double least = -1.7580993408473766;
  const double scale = 1 / std::sqrt((1 - p) * (1 + p * least * least)), shift = -scale * least * p;
  return {.scale = scale, .shift = shift, .dropped = least * scale + shift};
}

}  // namespace

NDArray dropout(const NDArray& x, double p, Generator& generator, bool training, Where where) {
  const CallSite site(where);
  check_dropout("dropout", x, p);
  if (!training || p == 0) return x;
  return drop("dropout", "dropout_backward", x, x.shape(), p, plain_map(p), generator);
}

NDArray channel_dropout(const NDArray& x, double p, Generator& generator, bool training, Where where) {
  const CallSite site(where);
  check_dropout("channel_dropout", x, p);
  const Shape channels = channel_mask("channel_dropout", x);
  if (!training || p == 0) return x;
  return drop("channel_dropout", "channel_dropout_backward", x, channels, p, plain_map(p), generator);
}

NDArray alpha_dropout(const NDArray& x, double p, Generator& generator, bool training, Where where) {
  const CallSite site(where);
  check_dropout("alpha_dropout", x, p);
  if (!training || p == 0) return x;
  return drop("alpha_dropout", "alpha_dropout_backward", x, x.shape(), p, alpha_map(p), generator);
}

NDArray feature_alpha_dropout(const NDArray& x, double p, Generator& generator, bool training, Where where) {
  const CallSite site(where);
  check_dropout("feature_alpha_dropout", x, p);
  const Shape channels = channel_mask("feature_alpha_dropout", x);
  if (!training || p == 0) return x;
  return drop("feature_alpha_dropout", "feature_alpha_dropout_backward", x, channels, p, alpha_map(p),
              generator);
}

NDArray gaussian_dropout(const NDArray& x, double p, Generator& generator, bool training, Where where) {
  const CallSite site(where);
  check_noise("gaussian_dropout", x);
  if (!(p >= 0 && p < 1))
    throw InvalidArgument("gaussian_dropout: p is " + number_text(p) + "; want 0 or more and less than 1");
  if (!training || p == 0) return x;
  if (is_half(x.dtype())) return cast(gaussian_dropout(wide(x), p, generator, training), x.dtype());
  EngineScope scope(x.engine());
  return x * generator.normal(x.shape(), 1, std::sqrt(p / (1 - p)), x.dtype(), x.device());
}

NDArray gaussian_noise(const NDArray& x, double stddev, Generator& generator, bool training, Where where) {
  const CallSite site(where);
  check_noise("gaussian_noise", x);
  if (!(stddev >= 0 && std::isfinite(stddev)))
    throw InvalidArgument("gaussian_noise: stddev is " + number_text(stddev) + "; want 0 or more");
  if (!training || stddev == 0) return x;
  if (is_half(x.dtype())) return cast(gaussian_noise(wide(x), stddev, generator, training), x.dtype());
  EngineScope scope(x.engine());
  return x + generator.normal(x.shape(), 0, stddev, x.dtype(), x.device());
}

HEDDLE_OPERATORS(dropout) {
  table.family("Neural networks");
  const Argument x{"x", DTypes::floating}, p{"p", 0.5}, training{"training", true},
      generator{"generator", kNone};
  table.add("dropout", by_name<dropout>,
            {"Zeroes each element with probability p and multiplies the rest by 1 / (1 - p); x itself unless "
             "`training` and p > 0. Drawn from `generator`, or for None from the thread's own.",
             {x, p, training, generator},
             "that of x",
             kDifferentiable});
  table.add("channel_dropout", by_name<channel_dropout>,
            {"As dropout, of whole channels of x (N, C, ...).",
             {x, p, training, generator},
             "that of x",
             kDifferentiable});
  table.add("alpha_dropout", by_name<alpha_dropout>,
            {"As dropout, with selu's limit in the place of 0; keeps the mean 0 and the variance 1.",
             {x, p, training, generator},
             "that of x",
             kDifferentiable});
  table.add("feature_alpha_dropout", by_name<feature_alpha_dropout>,
            {"As alpha_dropout, of whole channels of x (N, C, ...).",
             {x, p, training, generator},
             "that of x",
             kDifferentiable});
  table.add("gaussian_dropout", by_name<gaussian_dropout>,
            {"x times normal numbers of mean 1 and standard deviation sqrt(p / (1 - p)); x itself unless "
             "`training`.",
             {x, p, training, generator},
             "that of x",
             kDifferentiable});
  table.add("gaussian_noise", by_name<gaussian_noise>,
            {"x plus normal numbers with this standard deviation; x itself unless `training`.",
             {x, {"stddev", 1.0}, training, generator},
             "that of x",
             kDifferentiable});
}

}  // namespace heddle
