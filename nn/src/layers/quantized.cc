#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <heddle/layers/quantized.h>
#include <heddle/quantized/products.h>

#include "layers/conv_arguments.h"
#include "layers/layer_table.h"

namespace heddle {

using namespace nn_detail;

namespace {

constexpr const char* kQuantizedConv[] = {"QuantizedConv1d", "QuantizedConv2d", "QuantizedConv3d"};

std::vector<ArraySpec> quantized_arrays(const char* weight_shape, const char* outputs) {
  return {buffer_of(zeros_array("weight", weight_shape), DType::i8),
          buffer_of(ones_array("weight_scale", outputs)), buffer_of(zeros_array("bias", outputs, "bias")),
          buffer_of(ones_array("input_scale", "(1)")),
          buffer_of(zeros_array("input_zero_point", "(1)"), DType::i32)};
}

LayerSpec quantized_conv_spec(int axes) {
  const ConvImages& images = kConvImages[axes - 1];
  return {
      .name = kQuantizedConv[axes - 1],
      .documentation = std::string("Convolves ") + images.name + " in 8-bit integers; quantize() makes it.",
      .arguments = {inferred_size("in_channels"), size_argument("out_channels"),
                    window_argument("kernel", axes), window_argument("stride", axes, 1, 1),
                    convolution_padding(axes), window_argument("dilation", axes, 1, 1),
                    integer_argument("groups", 1, 1), switch_argument("bias", true),
                    switch_argument("relu", false), device_argument()},
      .arrays = quantized_arrays("(out_channels, in_channels / groups, kernel...)", "(out_channels)"),
      .input = images.input,
      .output = images.output};
}

}  // namespace

QuantizedDense::QuantizedDense(std::int64_t in, std::int64_t out, const QuantizedOptions& options,
                               Where where)
    : Layer(call_of("QuantizedDense", {inferred_value(in), out, options.bias, options.relu, options.device},
                    where)) {}

NDArray QuantizedDense::compute(const NDArray& x) {
  return quantized_linear(x,
                          {array("weight"), array("weight_scale"), array("input_scale"),
                           array("input_zero_point"), array("bias")},
                          {.relu = boolean("relu")});
}

template <int axes> QuantizedConv<axes>::QuantizedConv(const LayerCall& call) : Layer(call) {
  const CallSite site(call.where);
  const std::int64_t outputs = integer("out_channels"), groups = integer("groups");
  if (outputs % groups != 0)
    refuse_call(call,
                std::to_string(groups) + " groups do not divide " + std::to_string(outputs) + " outputs");
}

template <int axes>
QuantizedConv<axes>::QuantizedConv(std::int64_t in, std::int64_t out, const Dims& kernel,
                                   const QuantizedConvLayerOptions& options, Where where)
    : QuantizedConv(call_of(kQuantizedConv[axes - 1],
                            {inferred_value(in), out, window_value(kernel), window_value(options.stride),
                             padding_value(options.padding), window_value(options.dilation), options.groups,
                             options.bias, options.relu, options.device},
                            where)) {}

template <int axes> NDArray QuantizedConv<axes>::compute(const NDArray& x) {
  const ConvOptions options{.stride = integers("stride", axes),
                            .padding = padding_of(value("padding")),
                            .dilation = integers("dilation", axes),
                            .groups = integer("groups"),
                            .relu = boolean("relu")};
  const auto convolve = axes == 1 ? quantized_conv1d : axes == 2 ? quantized_conv2d : quantized_conv3d;
  return convolve(x,
                  {array("weight"), array("weight_scale"), array("input_scale"), array("input_zero_point"),
                   array("bias")},
                  options, CallSite::current());
}

template class QuantizedConv<1>;
template class QuantizedConv<2>;
template class QuantizedConv<3>;

HEDDLE_LAYERS(quantized) {
  table.family("Layers of 8-bit integers");
  table.add<QuantizedDense>(
      {.name = "QuantizedDense",
       .documentation = "x @ weight.T + bias in 8-bit integers; quantize() makes it.",
       .arguments = {inferred_size("in_features"), size_argument("out_features"),
                     switch_argument("bias", true), switch_argument("relu", false), device_argument()},
       .arrays = quantized_arrays("(out_features, in_features)", "(out_features)"),
       .input = "(batch..., in_features)",
       .output = "(batch..., out_features)"});
  table.add<QuantizedConv1d>(quantized_conv_spec(1));
  table.add<QuantizedConv2d>(quantized_conv_spec(2));
  table.add<QuantizedConv3d>(quantized_conv_spec(3));
}

}  // namespace heddle
