#include <string>
#include <utility>
#include <vector>

#include <heddle/elementwise_math.h>
#include <heddle/norms.h>
#include <heddle/number_text.h>
#include <heddle/reduce.h>
#include <heddle/shape_ops.h>

#include "autograd/record.h"
#include "core/autocast.h"
#include "core/operator.h"
#include "core/operator_table.h"
#include "families/norm/kernels.h"

namespace heddle {

using namespace operators_detail;

namespace {

struct NormInputs {
  NDArray x, weight, bias;
};

// `names`: what errors call the two arrays beside x.
void check_norm(const char* op, const NormInputs& in, const Shape& weights, double epsilon,
                std::pair<const char*, const char*> names = {"weight", "bias"}) {
  check_arrays(op, {&in.x});
  check_floating(op, in.x);
  if (!(epsilon >= 0))
    throw InvalidArgument(std::string(op) + ": epsilon is " + number_text(epsilon) + "; want 0 or more");
  for (const auto& [name, array] : {std::pair(names.first, &in.weight), std::pair(names.second, &in.bias)}) {
    if (!array->defined()) continue;
    check_arrays(op, {&in.x, array});
    const bool f32_beside_halves = is_half(in.x.dtype()) && array->dtype() == DType::f32;
    if (array->shape() != weights || (array->dtype() != in.x.dtype() && !f32_beside_halves))
      throw InvalidArgument(std::string(op) + ": " + name + " is " + name_of(array->dtype()) + " " +
                            array->shape().to_string() + "; want " + name_of(in.x.dtype()) + " " +
                            weights.to_string());
  }
}

NDArray plain(const NDArray& x) { return x.defined() ? x.detach().contiguous() : x; }

// x as (rows / groups, groups, channels, inner), and a weight as it broadcasts to that; undefined stays undefined.
Shape as_blocks(const NormProblem& p) { return {p.rows / p.groups, p.groups, p.channels, p.inner}; }
NDArray weight_block(const NormProblem& p, const NDArray& weight) {
  return reshape(weight, {1, p.groups, p.channels, 1});
}

// The gradients composed of operators, which a tape can record; of halves in f32.
std::vector<NDArray> by_operators(const NormProblem& p, const NormInputs& in, const NDArray& grad) {
  const NDArray x = reshape(wide(in.x), as_blocks(p)), g = reshape(wide(grad), as_blocks(p));
  const Dims axes = p.of_channels ? Dims{0, 3} : Dims{2, 3};
  const NDArray centered = p.centered ? x - mean(x, axes, true) : x;
  const NDArray scale = rsqrt(mean(square(centered), axes, true) + p.epsilon);
  const NDArray z = centered * scale;
  const NDArray h = in.weight.defined() ? g * weight_block(p, in.weight) : g;
  const NDArray moved = p.centered ? h - mean(h, axes, true) : h;
  std::vector<NDArray> gradients{
      cast(reshape(scale * (moved - z * mean(h * z, axes, true)), in.x.shape()), in.x.dtype())};
  if (in.weight.defined()) gradients.push_back(reshape(sum(g * z, {0, 3}), in.weight.shape()));
  if (in.bias.defined()) gradients.push_back(reshape(sum(g, {0, 3}), in.bias.shape()));
  return gradients;
}

struct NormResult {
  NDArray y, mean, scale, variance;  // variance: of batch_norm alone
};

NormResult push_norm(const char* op, const NormProblem& p, const NormInputs& in) {
  const Shape statistics{p.statistics()};
  const DType dtype = is_half(in.x.dtype()) ? DType::f32 : in.x.dtype();
  const NormResult out{make_result(in.x, in.x.shape(), in.x.dtype()), make_result(in.x, statistics, dtype),
                       make_result(in.x, statistics, dtype),
                       p.of_channels ? make_result(in.x, statistics, dtype) : NDArray()};
  auto* kernel = kernel_for<NormKernel>("normalise", in.x);
  std::vector<NDArray> reads{in.x};
  if (in.weight.defined()) reads.push_back(in.weight);
  if (in.bias.defined()) reads.push_back(in.bias);
  std::vector<NDArray> writes{out.y, out.mean, out.scale};
  if (out.variance.defined()) writes.push_back(out.variance);
  push_op(op, reads, writes, recordable([=, y = out.y.detach()](const KernelContext& context) {
            kernel(context, p, in.x, in.weight, in.bias, y, out.mean, out.scale, out.variance);
          }));
  return out;
}

// Which gradients are wanted.
struct Wanted {
  bool x, weight, bias;
};

std::vector<NDArray> push_backward(const char* op, const NormProblem& p, const NormInputs& in,
                                   const NormResult& out, const NDArray& grad, Wanted wanted) {
  const NDArray g = plain(grad);
  NormGradients made;
  if (wanted.x) made.x = make_result(g, in.x.shape(), g.dtype());
  if (wanted.weight) made.weight = make_gradient(1, in.weight);
  if (wanted.bias) made.bias = make_gradient(in.weight.defined() ? 2 : 1, in.bias);
  std::vector<NDArray> reads{g, in.x, out.mean, out.scale}, writes;
  if (in.weight.defined()) reads.push_back(in.weight);
  for (const NDArray& one : {made.x, made.weight, made.bias})
    if (one.defined()) writes.push_back(one);
  auto* kernel = kernel_for<NormBackwardKernel>("normalise_backward", g);
  push_op(op, reads, writes, recordable([=](const KernelContext& context) {
            kernel(context, p, g, in.x, in.weight, out.mean, out.scale, made);
          }),
          wanted.weight || wanted.bias ? kWeightsFirst : 0);
  std::vector<NDArray> gradients{made.x};
  if (in.weight.defined()) gradients.push_back(made.weight);
  if (in.bias.defined()) gradients.push_back(made.bias);
  return gradients;
}

// `backward_op` names the op of the gradients. Arguments are checked. Weights and statistics of halves are f32.
NormResult norm_of(const char* op, const char* backward_op, const NormProblem& p, const NormInputs& given) {
  const NormInputs in{given.x, wide(given.weight), wide(given.bias)};
  const NormInputs values{plain(in.x), plain(in.weight), plain(in.bias)};
  NormResult out = push_norm(op, p, values);
  const auto needs = [](const NDArray& array) { return array.defined() && requires_grad(array); };
  const Wanted wanted{needs(in.x), needs(in.weight), needs(in.bias)};
  std::vector<NDArray> inputs{in.x};
  if (in.weight.defined()) inputs.push_back(in.weight);
  if (in.bias.defined()) inputs.push_back(in.bias);
  if (!(wanted.x || wanted.weight || wanted.bias) ||
      !recording({&in.x, in.weight.defined() ? &in.weight : &in.x, in.bias.defined() ? &in.bias : &in.x}))
    return out;
  const NormInputs kept{save_for_backward(in.x),
                        in.weight.defined() ? save_for_backward(in.weight) : in.weight, in.bias};
  // The caller gets the mean: a change of it before the backward pass is an error.
  std::vector<NDArray> saved{kept.x, save_for_backward(values.x), save_for_backward(out.mean)};
  if (in.weight.defined()) saved.insert(saved.end(), {kept.weight, save_for_backward(values.weight)});
  const NormResult statistics{{}, out.mean, out.scale, {}};
  record_op(op, out.y, std::move(inputs), std::move(saved), [=](const NDArray& grad) {
    if (differentiating_gradient()) return by_operators(p, kept, grad);
    return push_backward(backward_op, p, values, statistics, grad, wanted);
  });
  return out;
}

std::int64_t product(const Shape& shape, int begin, int end) {
  std::int64_t size = 1;
  for (int i = begin; i < end; ++i) size *= shape[i];
  return size;
}

// layer_norm and rms_norm.
NDArray over_last_axes(const char* op, const char* backward_op, const NormInputs& in, int axes,
                       double epsilon, bool centered) {
  check_arrays(op, {&in.x});
  const int ndim = in.x.ndim();
  if (axes < 1 || axes > ndim)
    throw InvalidArgument(std::string(op) + ": axes is " + std::to_string(axes) + ", the array is " +
                          in.x.shape().to_string() + "; want 1 to its number of axes");
  const Shape& shape = in.x.shape();
  Shape weights;
  for (int i = ndim - axes; i < ndim; ++i) weights.push_back(shape[i]);
  check_norm(op, in, weights, epsilon);
  const NormProblem problem{
      product(shape, 0, ndim - axes), 1, product(shape, ndim - axes, ndim), 1, false, centered, epsilon};
  return norm_of(op, backward_op, problem, in).y;
}

// Checks x (N, C, ...) and returns C.
std::int64_t channels_of(const char* op, const NDArray& x) {
  check_arrays(op, {&x});
  if (x.ndim() < 2)
    throw InvalidArgument(std::string(op) + ": the array is " + x.shape().to_string() + "; want (N, C, ...)");
  return x.shape()[1];
}

// An array (C) as it broadcasts to x (N, C, ...).
NDArray of_channels(const NDArray& array, const NDArray& x) {
  Shape shape = Dims::filled(x.ndim(), 1);
  shape[1] = x.shape()[1];
  return reshape(array, shape);
}

}  // namespace

NDArray layer_norm(const NDArray& x, const NDArray& weight, const NDArray& bias, int axes, double epsilon,
                   Where where) {
  const CallSite site(where);
  return over_last_axes("layer_norm", "layer_norm_backward", {x, weight, bias}, axes, epsilon, true);
}

NDArray rms_norm(const NDArray& x, const NDArray& weight, int axes, double epsilon, Where where) {
  const CallSite site(where);
  return over_last_axes("rms_norm", "rms_norm_backward", {x, weight, {}}, axes, epsilon, false);
}

NDArray group_norm(const NDArray& x, std::int64_t groups, const NDArray& weight, const NDArray& bias,
                   double epsilon, Where where) {
  const CallSite site(where);
  const std::int64_t channels = channels_of("group_norm", x);
  if (groups < 1 || channels % groups != 0)
    throw InvalidArgument("group_norm: groups is " + std::to_string(groups) +
                          "; want a divisor of the number of channels, " + std::to_string(channels));
  const NormInputs in{x, weight, bias};
  check_norm("group_norm", in, {channels}, epsilon);
  const NormProblem problem{x.shape()[0] * groups,
                            groups,
                            channels / groups,
                            product(x.shape(), 2, x.ndim()),
                            false,
                            true,
                            epsilon};
  return norm_of("group_norm", "group_norm_backward", problem, in).y;
}

std::array<NDArray, 3> batch_norm(const NDArray& x, const NDArray& weight, const NDArray& bias,
                                  double epsilon, Where where) {
  const CallSite site(where);
  const std::int64_t channels = channels_of("batch_norm", x);
  NormInputs in{x, weight, bias};
  check_norm("batch_norm", in, {channels}, epsilon);
  const NormProblem problem{x.shape()[0], 1, channels, product(x.shape(), 2, x.ndim()), true, true, epsilon};
  const NormResult out = norm_of("batch_norm", "batch_norm_backward", problem, in);
  return {out.y, narrowed(out.mean, x.dtype()), narrowed(out.variance, x.dtype())};
}

NDArray batch_norm_with(const NDArray& x, const NDArray& mean, const NDArray& variance, const NDArray& weight,
                        const NDArray& bias, double epsilon, Where where) {
  const CallSite site(where);
  const std::int64_t channels = channels_of("batch_norm_with", x);
  check_norm("batch_norm_with", {x, weight, bias}, {channels}, epsilon);
  check_arrays("batch_norm_with", {&x, &mean, &variance});
  check_norm("batch_norm_with", {x, mean, variance}, {channels}, epsilon, {"mean", "variance"});
  if (is_half(x.dtype()))
    return cast(batch_norm_with(wide(x), wide(mean), wide(variance), wide(weight), wide(bias), epsilon),
                x.dtype());
  NDArray factor = rsqrt(variance + epsilon);
  if (weight.defined()) factor = factor * weight;
  NDArray shift = -(mean * factor);
  if (bias.defined()) shift = shift + bias;
  return x * of_channels(factor, x) + of_channels(shift, x);
}

HEDDLE_OPERATORS(norm) {
  table.family("Normalisation");
  const Argument x = {"x", DTypes::floating}, weight = {"weight", kNone, DTypes::floating},
                 bias = {"bias", kNone, DTypes::floating};
  table.add("layer_norm", layer_norm,
            {"(x - mean) / sqrt(variance + epsilon) * weight + bias over the last `axes` axes.",
             {x, weight, bias, {"axes", 1}, {"epsilon", 1e-5}},
             "that of x",
             kDifferentiable});
  table.add("rms_norm", rms_norm,
            {"x / sqrt(mean(x^2) + epsilon) * weight over the last `axes` axes.",
             {x, weight, {"axes", 1}, {"epsilon", 1e-6}},
             "that of x",
             kDifferentiable});
  table.add("group_norm", group_norm,
            {"Normalises x (N, C, ...) over each of `groups` parts of the channels of one element of the "
             "batch; weight, bias (C).",
             {x, {"groups"}, weight, bias, {"epsilon", 1e-5}},
             "that of x",
             kDifferentiable});
  table.add("batch_norm", batch_norm,
            {"Normalises x (N, C, ...) over all axes but that of the channels; weight, bias (C). The result, "
             "and the mean and the "
             "variance of x, which have no gradient.",
             {x, weight, bias, {"epsilon", 1e-5}},
             "that of x",
             kDifferentiable});
  table.add("batch_norm_with", batch_norm_with,
            {"As batch_norm, with a mean and a variance (C) that are given, as in inference.",
             {x, {"mean", DTypes::floating}, {"variance", DTypes::floating}, weight, bias, {"epsilon", 1e-5}},
             "that of x",
             kDifferentiable});
}

}  // namespace heddle
