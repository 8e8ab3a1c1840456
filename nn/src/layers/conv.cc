#include <array>

#include <heddle/conv.h>
#include <heddle/layers/conv.h>

#include "layers/layer_table.h"

namespace heddle {

using namespace nn_detail;

Conv2d::Conv2d(std::int64_t in, std::int64_t out, const Dims& kernel, const Conv2dLayerOptions& options,
               Generator& generator, Where where)
    : Layer(call_of("Conv2d",
                    {inferred_value(in), out, window_value(kernel), window_value(options.stride),
                     window_value(options.padding), window_value(options.dilation), options.groups,
                     options.bias, options.relu, init_value(options.init), options.device, &generator},
                    where)) {}

NDArray Conv2d::compute(const NDArray& x) {
  const Dims stride = integers("stride", 2), padding = integers("padding", 2),
             dilation = integers("dilation", 2);
  return conv2d(x, array("weight"), array("bias"),
                {.stride = {stride[0], stride[1]},
                 .padding = {padding[0], padding[1]},
                 .dilation = {dilation[0], dilation[1]},
                 .groups = integer("groups"),
                 .relu = boolean("relu")});
}

Conv1d::Conv1d(std::int64_t in, std::int64_t out, std::int64_t kernel, const Conv1dLayerOptions& options,
               Generator& generator, Where where)
    : Layer(call_of(
          "Conv1d",
          {inferred_value(in), out, kernel, options.stride, options.padding, options.dilation, options.groups,
           options.bias, options.relu, init_value(options.init), options.device, &generator},
          where)) {}

NDArray Conv1d::compute(const NDArray& x) {
  return conv1d(x, array("weight"), array("bias"),
                {.stride = integer("stride"),
                 .padding = integer("padding"),
                 .dilation = integer("dilation"),
                 .groups = integer("groups"),
                 .relu = boolean("relu")});
}

ConvTranspose2d::ConvTranspose2d(std::int64_t in, std::int64_t out, const Dims& kernel,
                                 const ConvTranspose2dLayerOptions& options, Generator& generator,
                                 Where where)
    : Layer(call_of("ConvTranspose2d",
                    {inferred_value(in), out, window_value(kernel), window_value(options.stride),
                     window_value(options.padding), window_value(options.output_padding),
                     window_value(options.dilation), options.groups, options.bias, init_value(options.init),
                     options.device, &generator},
                    where)) {}

NDArray ConvTranspose2d::compute(const NDArray& x) {
  const auto pair = [this](const char* name) {
    const Dims sizes = integers(name, 2);
    return std::array<std::int64_t, 2>{sizes[0], sizes[1]};
  };
  return conv_transpose2d(x, array("weight"), array("bias"),
                          {.stride = pair("stride"),
                           .padding = pair("padding"),
                           .output_padding = pair("output_padding"),
                           .dilation = pair("dilation"),
                           .groups = integer("groups")});
}

HEDDLE_LAYERS(conv) {
  table.family("Layers with weights");
  table.add<Conv1d>(
      {.name = "Conv1d",
       .documentation = "Convolves sequences: each result is a weighted sum of a window.",
       .arguments = {inferred_size("in_channels"), size_argument("out_channels"), size_argument("kernel"),
                     integer_argument("stride", 1, 1), integer_argument("padding", 0),
                     integer_argument("dilation", 1, 1), integer_argument("groups", 1, 1),
                     switch_argument("bias", true), switch_argument("relu", false), init_argument(),
                     device_argument(), generator_argument()},
       .arrays = {weight_array("weight", "(out_channels, in_channels / groups, kernel)"),
                  zeros_array("bias", "(out_channels)", "bias")},
       .input = "(batch, in_channels, length)",
       .output = "(batch, out_channels, length')"});
  table.add<ConvTranspose2d>(
      {.name = "ConvTranspose2d",
       .documentation =
           "Adds a weighted window to its result for each element of images; also called deconvolution.",
       .arguments = {inferred_size("in_channels"), size_argument("out_channels"),
                     window_argument("kernel", 2), window_argument("stride", 2, 1, 1),
                     window_argument("padding", 2, 0), window_argument("output_padding", 2, 0),
                     window_argument("dilation", 2, 1, 1), integer_argument("groups", 1, 1),
                     switch_argument("bias", true), init_argument(), device_argument(), generator_argument()},
       .arrays = {weight_array("weight", "(in_channels, out_channels / groups, kernel...)"),
                  zeros_array("bias", "(out_channels)", "bias")},
       .input = "(batch, in_channels, height, width)",
       .output = "(batch, out_channels, height', width')"});
  table.add<Conv2d>({.name = "Conv2d",
                     .documentation = "Convolves images: each result is a weighted sum of a window.",
                     .arguments = {inferred_size("in_channels"), size_argument("out_channels"),
                                   window_argument("kernel", 2), window_argument("stride", 2, 1, 1),
                                   window_argument("padding", 2, 0), window_argument("dilation", 2, 1, 1),
                                   integer_argument("groups", 1, 1), switch_argument("bias", true),
                                   switch_argument("relu", false), init_argument(), device_argument(),
                                   generator_argument()},
                     .arrays = {weight_array("weight", "(out_channels, in_channels / groups, kernel...)"),
                                zeros_array("bias", "(out_channels)", "bias")},
                     .input = "(batch, in_channels, height, width)",
                     .output = "(batch, out_channels, height', width')"});
}

}  // namespace heddle
