#include <algorithm>
#include <cstdint>
#include <string>

#include <heddle/layers/conv.h>

#include "layers/conv_arguments.h"
#include "layers/layer_table.h"

namespace heddle {

using namespace nn_detail;

namespace {

constexpr const char* kConv[] = {"Conv1d", "Conv2d", "Conv3d"};
constexpr const char* kConvTranspose[] = {"ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"};

LayerSpec conv_spec(int axes) {
  const ConvImages& images = kConvImages[axes - 1];
  return {
      .name = kConv[axes - 1],
      .documentation =
          std::string("Convolves ") + images.name + ": each result is a weighted sum of a window.",
      .arguments = {inferred_size("in_channels"), size_argument("out_channels"),
                    window_argument("kernel", axes), window_argument("stride", axes, 1, 1),
                    convolution_padding(axes), window_argument("dilation", axes, 1, 1),
                    integer_argument("groups", 1, 1), switch_argument("bias", true),
                    switch_argument("relu", false), init_argument(), device_argument(), generator_argument()},
      .arrays = {weight_array("weight", "(out_channels, in_channels / groups, kernel...)"),
                 zeros_array("bias", "(out_channels)", "bias")},
      .input = images.input,
      .output = images.output};
}

LayerSpec conv_transpose_spec(int axes) {
  const ConvImages& images = kConvImages[axes - 1];
  return {
      .name = kConvTranspose[axes - 1],
      .documentation = std::string("Adds a weighted window to its result for each element of ") +
                       images.name + "; also called deconvolution.",
      .arguments = {inferred_size("in_channels"), size_argument("out_channels"),
                    window_argument("kernel", axes), window_argument("stride", axes, 1, 1),
                    window_argument("padding", axes, 0), window_argument("output_padding", axes, 0),
                    window_argument("dilation", axes, 1, 1), integer_argument("groups", 1, 1),
                    switch_argument("bias", true), init_argument(), device_argument(), generator_argument()},
      .arrays = {weight_array("weight", "(in_channels, out_channels / groups, kernel...)"),
                 zeros_array("bias", "(out_channels)", "bias")},
      .input = images.input,
      .output = images.output};
}

}  // namespace

template <int axes> Conv<axes>::Conv(const LayerCall& call) : Layer(call) {
  const CallSite site(call.where);
  const std::int64_t outputs = integer("out_channels"), groups = integer("groups");
  if (outputs % groups != 0)
    refuse_call(call,
                std::to_string(groups) + " groups do not divide " + std::to_string(outputs) + " outputs");
  if (!padding_of(value("padding")).same()) return;
  for (const std::int64_t stride : integers("stride", axes))
    if (stride != 1)
      refuse_call(call,
                  "padding is 'same' and a stride " + std::to_string(stride) + "; 'same' wants strides of 1");
}

template <int axes>
Conv<axes>::Conv(std::int64_t in, std::int64_t out, const Dims& kernel, const ConvLayerOptions& options,
                 Generator& generator, Where where)
    : Conv(call_of(kConv[axes - 1],
                   {inferred_value(in), out, window_value(kernel), window_value(options.stride),
                    padding_value(options.padding), window_value(options.dilation), options.groups,
                    options.bias, options.relu, init_value(options.init), options.device, &generator},
                   where)) {}

template <int axes> NDArray Conv<axes>::compute(const NDArray& x) {
  const ConvOptions options{.stride = integers("stride", axes),
                            .padding = padding_of(value("padding")),
                            .dilation = integers("dilation", axes),
                            .groups = integer("groups"),
                            .relu = boolean("relu")};
  const auto convolve = axes == 1 ? conv1d : axes == 2 ? conv2d : conv3d;
  return convolve(x, array("weight"), array("bias"), options, CallSite::current());
}

template <int axes> ConvTranspose<axes>::ConvTranspose(const LayerCall& call) : Layer(call) {
  const CallSite site(call.where);
  const std::int64_t channels = optional_integer("in_channels").value_or(0), groups = integer("groups");
  if (channels % groups != 0)
    refuse_call(call,
                std::to_string(groups) + " groups do not divide " + std::to_string(channels) + " channels");
  const Dims stride = integers("stride", axes), dilation = integers("dilation", axes),
             more = integers("output_padding", axes);
  for (int axis = 0; axis < axes; ++axis)
    if (more[axis] >= std::max(stride[axis], dilation[axis]))
      refuse_call(call, "stride " + std::to_string(stride[axis]) + ", dilation " +
                            std::to_string(dilation[axis]) + ", output_padding " +
                            std::to_string(more[axis]) + "; wanted output_padding below stride or dilation");
}

template <int axes>
ConvTranspose<axes>::ConvTranspose(std::int64_t in, std::int64_t out, const Dims& kernel,
                                   const ConvTransposeLayerOptions& options, Generator& generator,
                                   Where where)
    : ConvTranspose(call_of(kConvTranspose[axes - 1],
                            {inferred_value(in), out, window_value(kernel), window_value(options.stride),
                             window_value(options.padding), window_value(options.output_padding),
                             window_value(options.dilation), options.groups, options.bias,
                             init_value(options.init), options.device, &generator},
                            where)) {}

template <int axes> NDArray ConvTranspose<axes>::compute(const NDArray& x) {
  const ConvTransposeOptions options{.stride = integers("stride", axes),
                                     .padding = integers("padding", axes),
                                     .output_padding = integers("output_padding", axes),
                                     .dilation = integers("dilation", axes),
                                     .groups = integer("groups")};
  const auto convolve = axes == 1 ? conv_transpose1d : axes == 2 ? conv_transpose2d : conv_transpose3d;
  return convolve(x, array("weight"), array("bias"), options, CallSite::current());
}

template class Conv<1>;
template class Conv<2>;
template class Conv<3>;
template class ConvTranspose<1>;
template class ConvTranspose<2>;
template class ConvTranspose<3>;

HEDDLE_LAYERS(conv) {
  table.family("Layers with weights");
  table.add<Conv1d>(conv_spec(1));
  table.add<Conv2d>(conv_spec(2));
  table.add<Conv3d>(conv_spec(3));
  table.add<ConvTranspose1d>(conv_transpose_spec(1));
  table.add<ConvTranspose2d>(conv_transpose_spec(2));
  table.add<ConvTranspose3d>(conv_transpose_spec(3));
}

}  // namespace heddle
