#include <heddle/layers/pooling.h>
#include <heddle/pooling.h>

#include "layers/layer_table.h"

namespace heddle {

using namespace nn_detail;

namespace {

LayerCall pool_call(const char* layer, const Dims& kernel, const Dims& stride, const Dims& padding) {
  return call_of(layer, {window_value(kernel), window_value(stride), window_value(padding)},
                 CallSite::current());
}

Pool2dOptions pool_options(const Dims& kernel, const Dims& stride, const Dims& padding) {
  return {.kernel = {kernel[0], kernel[1]},
          .stride = {stride[0] == 0 ? kernel[0] : stride[0], stride[1] == 0 ? kernel[1] : stride[1]},
          .padding = {padding[0], padding[1]}};
}

LayerSpec pool_spec(const char* name, const char* documentation) {
  return {.name = name,
          .documentation = documentation,
          .arguments = {window_argument("kernel", 2), window_argument("stride", 2, 0),
                        window_argument("padding", 2, 0)},
          .input = "(batch, channels, height, width)",
          .output = "(batch, channels, height', width')"};
}

}  // namespace

MaxPool2d::MaxPool2d(const Dims& kernel, const Dims& stride, const Dims& padding)
    : Layer(pool_call("MaxPool2d", kernel, stride, padding)) {}

NDArray MaxPool2d::compute(const NDArray& x) {
  return max_pool2d(x, pool_options(integers("kernel", 2), integers("stride", 2), integers("padding", 2)));
}

AvgPool2d::AvgPool2d(const Dims& kernel, const Dims& stride, const Dims& padding)
    : Layer(pool_call("AvgPool2d", kernel, stride, padding)) {}

NDArray AvgPool2d::compute(const NDArray& x) {
  return avg_pool2d(x, pool_options(integers("kernel", 2), integers("stride", 2), integers("padding", 2)));
}

HEDDLE_LAYERS(pooling) {
  table.family("Layers without weights");
  table.add<MaxPool2d>(pool_spec("MaxPool2d", "The largest of each window; stride 0 means kernel."));
  table.add<AvgPool2d>(pool_spec("AvgPool2d", "The mean of each window; stride 0 means kernel."));
}

}  // namespace heddle
