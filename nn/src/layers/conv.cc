#include <heddle/conv.h>
#include <heddle/layers/conv.h>

#include "layers/layer_table.h"

namespace heddle {

using namespace nn_detail;

Conv2d::Conv2d(std::int64_t in, std::int64_t out, std::int64_t kernel, Conv2dLayerOptions options,
               Generator& generator, Where where)
    : in_(in),
      out_(out),
      kernel_(kernel),
      stride_(options.stride),
      padding_(options.padding),
      relu_(options.relu) {
  const CallSite site(where);
  check_positive("Conv2d", "in_channels", in);
  check_positive("Conv2d", "out_channels", out);
  check_positive("Conv2d", "kernel", kernel);
  check_positive("Conv2d", "stride", stride_);
  weight_ =
      parameter("weight", init_weight({out, in, kernel, kernel}, options.init, generator, options.device));
  if (options.bias) bias_ = parameter("bias", zero_bias(out, options.device));
}

NDArray Conv2d::forward(const NDArray& x) {
  check_defined(*this, x);
  if (x.ndim() != 4 || x.shape()[1] != in_)
    refuse_input(*this, x, "(batch, " + std::to_string(in_) + ", height, width)");
  return conv2d(x, weight_, bias_,
                {.stride = {stride_, stride_}, .padding = {padding_, padding_}, .relu = relu_});
}

std::string Conv2d::to_string() const {
  std::string text =
      "Conv2d(" + std::to_string(in_) + ", " + std::to_string(out_) + ", " + std::to_string(kernel_);
  if (stride_ != 1) text += ", stride " + std::to_string(stride_);
  if (padding_ != 0) text += ", padding " + std::to_string(padding_);
  return text + (relu_ ? ", relu)" : ")");
}

HEDDLE_LAYERS(conv) {
  table.family("Layers with weights");
  table.add("Conv2d", "x (batch, in, h, w) -> (batch, out, h', w').",
            {size_argument("in_channels"), size_argument("out_channels"), size_argument("kernel"),
             size_argument("stride", 1), size_argument("padding", 0), switch_argument("bias", true),
             switch_argument("relu", false), init_argument(), device_argument(), generator_argument()},
            [](const LayerArguments& a) {
              const Conv2dLayerOptions options{.stride = a.integer("stride"),
                                               .padding = a.integer("padding"),
                                               .bias = a.boolean("bias"),
                                               .relu = a.boolean("relu"),
                                               .init = a.init("init"),
                                               .device = a.device("device")};
              return layer(Conv2d(a.integer("in_channels"), a.integer("out_channels"), a.integer("kernel"),
                                  options, a.generator("generator")));
            });
}

}  // namespace heddle
