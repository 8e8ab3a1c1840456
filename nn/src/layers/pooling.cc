#include <heddle/layers/pooling.h>
#include <heddle/pooling.h>

#include "layers/layer_table.h"

namespace heddle {

using namespace nn_detail;

namespace {

void check_image(const Module& layer, const NDArray& x) {
  check_defined(layer, x);
  if (x.ndim() != 4) refuse_input(layer, x, "(batch, channels, height, width)");
}

}  // namespace

SquareWindow::SquareWindow(const char* layer, std::int64_t kernel, std::int64_t stride, std::int64_t padding)
    : kernel_(kernel), stride_(stride == 0 ? kernel : stride), padding_(padding) {
  check_positive(layer, "kernel", kernel);
  check_positive(layer, "stride", stride_);
}

Pool2dOptions SquareWindow::options() const {
  return {.kernel = {kernel_, kernel_}, .stride = {stride_, stride_}, .padding = {padding_, padding_}};
}

std::string SquareWindow::to_string() const {
  std::string text = std::to_string(kernel_);
  if (stride_ != kernel_) text += ", stride " + std::to_string(stride_);
  if (padding_ != 0) text += ", padding " + std::to_string(padding_);
  return "(" + text + ")";
}

NDArray MaxPool2d::forward(const NDArray& x) {
  check_image(*this, x);
  return max_pool2d(x, window_.options());
}

NDArray AvgPool2d::forward(const NDArray& x) {
  check_image(*this, x);
  return avg_pool2d(x, window_.options());
}

HEDDLE_LAYERS(pooling) {
  table.family("Layers without weights");
  const std::vector<ArgumentInfo> window{size_argument("kernel"), size_argument("stride", 0),
                                         size_argument("padding", 0)};
  table.add("MaxPool2d", "The largest of each window; stride 0 means kernel.", window,
            [](const LayerArguments& a) {
              return layer(MaxPool2d(a.integer("kernel"), a.integer("stride"), a.integer("padding")));
            });
  table.add("AvgPool2d", "The mean of each window; stride 0 means kernel.", window,
            [](const LayerArguments& a) {
              return layer(AvgPool2d(a.integer("kernel"), a.integer("stride"), a.integer("padding")));
            });
}

}  // namespace heddle
