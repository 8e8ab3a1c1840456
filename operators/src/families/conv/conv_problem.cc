#include "families/conv/conv_problem.h"

#include <algorithm>
#include <string>

#include "core/autocast.h"
#include "core/operator.h"

namespace heddle {

Padding::Padding(const std::string& word) : same_(word == "same") {
  if (word != "same" && word != "valid")
    throw InvalidArgument("padding is '" + word + "'; want 'same', 'valid' or numbers");
}

namespace {

using std::to_string;

[[noreturn]] void refuse_conv(const ConvForm& form, const std::string& what) {
  throw InvalidArgument(std::string(form.op) + ": " + what);
}

std::string conv_shapes(const NDArray& x, const NDArray& weight) {
  return "x " + x.shape().to_string() + ", weight " + weight.shape().to_string();
}

void check_conv_arrays(const ConvForm& form, const NDArray& x, const NDArray& weight, const NDArray& bias) {
  operators_detail::check_arrays(form.op, {&x, &weight});
  if (bias.defined()) operators_detail::check_arrays(form.op, {&x, &bias});
  operators_detail::check_floating(form.op, x);
  if (operators_detail::mixes_dtypes() && is_floating(weight.dtype()) &&
      (!bias.defined() || is_floating(bias.dtype())))
    return;
  if (x.dtype() == weight.dtype() && (!bias.defined() || bias.dtype() == x.dtype())) return;
  refuse_conv(form, std::string("x is ") + name_of(x.dtype()) + " and weight " + name_of(weight.dtype()) +
                        "; wanted one dtype for x, weight and bias");
}

void check_conv_sizes(const ConvForm& form, const NDArray& x, const NDArray& weight, const NDArray& bias,
                      std::int64_t outputs) {
  if (element_count(weight.shape()) == 0 || volume(spatial(x.shape())) == 0)
    refuse_conv(form, conv_shapes(x, weight) + "; wanted no axis of 0 but N");
  if (bias.defined() && bias.shape() != Shape{outputs})
    refuse_conv(form, "bias " + bias.shape().to_string() + "; wanted (" + to_string(outputs) + ",)");
}

// A stride of one window and a dilation of one element lead nowhere. Both functions make them small: kernels add them to positions,
// which must not overflow.

// Sets the size of the result along one axis, and "same" padding.
void place_conv_axis(const ConvForm& form, ConvProblem& p, std::size_t axis, bool same) {
  static constexpr const char* kUnits[] = {" slices", " rows", " columns"};
  const std::int64_t in = p.in[axis], stride = p.stride[axis], dilation = p.dilation[axis];
  std::int64_t& padding = p.padding[axis];
  if (stride < 1 || padding < 0 || dilation < 1)
    refuse_conv(form, "stride " + to_string(stride) + ", padding " + to_string(padding) + ", dilation " +
                          to_string(dilation) + "; wanted at least 1, 0 and 1");
  if (p.kernel[axis] == 1) p.dilation[axis] = 1;
  std::int64_t padded, span, both;
  if (__builtin_mul_overflow(padding, 2, &padded) || __builtin_add_overflow(padded, in, &padded) ||
      __builtin_mul_overflow(dilation, p.kernel[axis] - 1, &span) || __builtin_add_overflow(span, 1, &span) ||
      __builtin_add_overflow(span, in, &both))
    refuse_conv(form, "padding " + to_string(padding) + " and dilation " + to_string(dilation) +
                          " make sizes beyond 64 bits");
  if (same) {
    if (stride != 1)
      refuse_conv(form,
                  "padding is 'same' and a stride " + to_string(stride) + "; 'same' wants strides of 1");
    padding = (span - 1) / 2;
    p.out[axis] = in;
    return;
  }
  if (padded < span)
    refuse_conv(form, "the kernel spans " + to_string(span) + " and the padded input only " +
                          to_string(padded) + kUnits[axis]);
  p.out[axis] = (padded - span) / stride + 1;
  if (p.out[axis] == 1) p.stride[axis] = std::min(stride, padded);
}

// Sets the sizes of the transposed convolution's x and result along one axis, where `more` is its output_padding.
void place_transposed_axis(const ConvForm& form, ConvProblem& p, std::size_t axis, std::int64_t more) {
  const std::int64_t size = p.out[axis], stride = p.stride[axis], padding = p.padding[axis],
                     dilation = p.dilation[axis];
  if (stride < 1 || padding < 0 || dilation < 1 || more < 0 || more >= std::max(stride, dilation))
    refuse_conv(form, "stride " + to_string(stride) + ", padding " + to_string(padding) + ", dilation " +
                          to_string(dilation) + ", output_padding " + to_string(more) +
                          "; wanted at least 1, 0, 1 and 0, with output_padding below stride or dilation");
  std::int64_t whole, span;
  if (__builtin_mul_overflow(size - 1, stride, &whole) ||
      __builtin_mul_overflow(p.kernel[axis] - 1, dilation, &span) ||
      __builtin_add_overflow(whole, span, &whole) || __builtin_add_overflow(whole, more + 1, &whole) ||
      padding > whole / 2)
    refuse_conv(form, "the sizes of the result are beyond 64 bits, or the padding is larger than the result");
  p.in[axis] = whole - 2 * padding;
  if (p.in[axis] < 1) refuse_conv(form, "padding " + to_string(padding) + " leaves nothing of the result");
  if (size == 1) p.stride[axis] = std::min(stride, whole);
  if (p.kernel[axis] == 1) p.dilation[axis] = 1;
}

}  // namespace

ConvProblem conv_problem(const ConvForm& form, int axes, const NDArray& x, const NDArray& weight,
                         const NDArray& bias, const ConvOptions& options) {
  check_conv_arrays(form, x, weight, bias);
  return conv_problem_of_shapes(form, axes, x, weight, bias, options);
}

ConvProblem conv_problem_of_shapes(const ConvForm& form, int axes, const NDArray& x, const NDArray& weight,
                                   const NDArray& bias, const ConvOptions& options) {
  if (x.ndim() != axes + 2 || weight.ndim() != axes + 2)
    refuse_conv(form,
                conv_shapes(x, weight) + "; wanted " + form.x + " and (O, C / groups, " + form.kernel + ")");
  const std::int64_t channels = x.shape()[1], outputs = weight.shape()[0], groups = options.groups;
  if (groups < 1 || channels % groups != 0 || outputs % groups != 0)
    refuse_conv(form, to_string(groups) + " groups do not divide " + to_string(channels) + " channels and " +
                          to_string(outputs) + " outputs");
  if (weight.shape()[1] != channels / groups)
    refuse_conv(form, conv_shapes(x, weight) + ", groups " + to_string(groups) + "; wanted a weight of " +
                          to_string(channels / groups) + " channels");
  check_conv_sizes(form, x, weight, bias, outputs);
  const bool same = options.padding.same();
  ConvProblem problem{
      .axes = axes,
      .n = x.shape()[0],
      .channels = channels,
      .outputs = outputs,
      .groups = groups,
      .in = spatial(x.shape()),
      .out = {},
      .kernel = spatial(weight.shape()),
      .stride = spatial(form.op, "stride", options.stride, axes, 1),
      .dilation = spatial(form.op, "dilation", options.dilation, axes, 1),
      .padding = spatial(form.op, "padding", same ? Dims(0) : options.padding.sizes(), axes, 0),
      .relu = options.relu,
      .bias = bias.defined()};
  for (std::size_t axis = 0; axis < kSpatial; ++axis) place_conv_axis(form, problem, axis, same);
  return problem;
}

ConvProblem transposed_problem(const ConvForm& form, int axes, const NDArray& x, const NDArray& weight,
                               const NDArray& bias, const ConvTransposeOptions& options) {
  check_conv_arrays(form, x, weight, bias);
  if (x.ndim() != axes + 2 || weight.ndim() != axes + 2 || weight.shape()[0] != x.shape()[1])
    refuse_conv(form,
                conv_shapes(x, weight) + "; wanted " + form.x + " and (C, O / groups, " + form.kernel + ")");
  const std::int64_t groups = options.groups, channels = x.shape()[1];
  if (groups < 1 || channels % groups != 0)
    refuse_conv(form, to_string(groups) + " groups do not divide " + to_string(channels) + " channels");
  std::int64_t outputs;
  if (__builtin_mul_overflow(weight.shape()[1], groups, &outputs))
    refuse_conv(form, to_string(groups) + " groups make sizes beyond 64 bits");
  check_conv_sizes(form, x, weight, bias, outputs);
  ConvProblem problem{.axes = axes,
                      .n = x.shape()[0],
                      .channels = outputs,
                      .outputs = channels,
                      .groups = groups,
                      .in = {},
                      .out = spatial(x.shape()),
                      .kernel = spatial(weight.shape()),
                      .stride = spatial(form.op, "stride", options.stride, axes, 1),
                      .dilation = spatial(form.op, "dilation", options.dilation, axes, 1),
                      .padding = spatial(form.op, "padding", options.padding, axes, 0),
                      .relu = false,
                      .bias = false};
  const Spatial more = spatial(form.op, "output_padding", options.output_padding, axes, 0);
  for (std::size_t axis = 0; axis < kSpatial; ++axis) place_transposed_axis(form, problem, axis, more[axis]);
  return problem;
}

}  // namespace heddle
