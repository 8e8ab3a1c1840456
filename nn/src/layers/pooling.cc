#include <string>
#include <utility>
#include <vector>

#include <heddle/layers/pooling.h>
#include <heddle/pooling.h>
#include <heddle/reduce.h>
#include <heddle/shape_ops.h>

#include "layers/layer_table.h"

namespace heddle {

using namespace nn_detail;

namespace {

constexpr const char* kMaxPool[] = {"MaxPool1d", "MaxPool2d", "MaxPool3d"};
constexpr const char* kAvgPool[] = {"AvgPool1d", "AvgPool2d", "AvgPool3d"};
constexpr const char* kAdaptiveMaxPool[] = {"AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d"};
constexpr const char* kAdaptiveAvgPool[] = {"AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d"};

Dims stride_of(const Dims& kernel, Dims stride) {
  for (int axis = 0; axis < stride.size(); ++axis)
    if (stride[axis] == 0) stride[axis] = kernel[axis];
  return stride;
}

LayerSpec pool_spec(const char* const* names, int axes, const char* documentation,
                    std::vector<ArgumentInfo> arguments) {
  static constexpr const char* kSizes[][2] = {
      {"(batch, channels, length)", "(batch, channels, length')"},
      {"(batch, channels, height, width)", "(batch, channels, height', width')"},
      {"(batch, channels, depth, height, width)", "(batch, channels, depth', height', width')"}};
  return {.name = names[axes - 1],
          .documentation = documentation,
          .arguments = std::move(arguments),
          .input = kSizes[axes - 1][0],
          .output = kSizes[axes - 1][1]};
}

template <int axes> void add_windows(LayerTable& table) {
  const ArgumentInfo kernel = window_argument("kernel", axes), stride = window_argument("stride", axes, 0),
                     padding = window_argument("padding", axes, 0),
                     ceil_mode = switch_argument("ceil_mode", false);
  table.add<MaxPool<axes>>(
      pool_spec(kMaxPool, axes, "The largest of each window; stride 0 means kernel.",
                {kernel, stride, padding, window_argument("dilation", axes, 1, 1), ceil_mode}));
  table.add<AvgPool<axes>>(
      pool_spec(kAvgPool, axes, "The mean of each window; stride 0 means kernel.",
                {kernel, stride, padding, switch_argument("count_include_pad", true), ceil_mode}));
}

template <int axes> void add_adaptive(LayerTable& table) {
  const std::vector<ArgumentInfo> size{window_argument("output_size", axes)};
  table.add<AdaptiveMaxPool<axes>>(pool_spec(
      kAdaptiveMaxPool, axes, "The largest of each of `output_size` windows, which cover the input.", size));
  table.add<AdaptiveAvgPool<axes>>(pool_spec(
      kAdaptiveAvgPool, axes, "The mean of each of `output_size` windows, which cover the input.", size));
}

LayerSpec global_spec(const char* name, const char* documentation) {
  return {.name = name,
          .documentation = documentation,
          .input = "(batch, channels, ...)",
          .output = "(batch, channels)"};
}

// x (batch, channels, elements).
NDArray flat_channels(const NDArray& x) {
  const Shape& shape = x.shape();
  std::int64_t elements = 1;
  for (int axis = 2; axis < shape.size(); ++axis) elements *= shape[axis];
  return reshape(x, {shape[0], shape[1], elements});
}

void check_padding(const LayerCall& call, const Dims& kernel, const Dims& padding) {
  const CallSite site(call.where);
  for (int axis = 0; axis < kernel.size(); ++axis)
    if (padding[axis] > kernel[axis] / 2)
      refuse_call(call, "kernel " + std::to_string(kernel[axis]) + ", padding " +
                            std::to_string(padding[axis]) + "; wanted 0 to half the kernel");
}

}  // namespace

template <int axes> MaxPool<axes>::MaxPool(const LayerCall& call) : Layer(call) {
  check_padding(call, integers("kernel", axes), integers("padding", axes));
}

template <int axes>
MaxPool<axes>::MaxPool(const Dims& kernel, const Dims& stride, const Dims& padding, const Dims& dilation,
                       bool ceil_mode)
    : MaxPool(call_of(kMaxPool[axes - 1],
                      {window_value(kernel), window_value(stride), window_value(padding),
                       window_value(dilation), ceil_mode},
                      CallSite::current())) {}

template <int axes> NDArray MaxPool<axes>::compute(const NDArray& x) {
  const Dims kernel = integers("kernel", axes);
  const PoolOptions options{.kernel = kernel,
                            .stride = stride_of(kernel, integers("stride", axes)),
                            .padding = integers("padding", axes),
                            .dilation = integers("dilation", axes),
                            .ceil_mode = boolean("ceil_mode")};
  const auto pool = axes == 1 ? max_pool1d : axes == 2 ? max_pool2d : max_pool3d;
  return pool(x, options, CallSite::current());
}

template <int axes> AvgPool<axes>::AvgPool(const LayerCall& call) : Layer(call) {
  check_padding(call, integers("kernel", axes), integers("padding", axes));
}

template <int axes>
AvgPool<axes>::AvgPool(const Dims& kernel, const Dims& stride, const Dims& padding, bool count_include_pad,
                       bool ceil_mode)
    : AvgPool(call_of(
          kAvgPool[axes - 1],
          {window_value(kernel), window_value(stride), window_value(padding), count_include_pad, ceil_mode},
          CallSite::current())) {}

template <int axes> NDArray AvgPool<axes>::compute(const NDArray& x) {
  const Dims kernel = integers("kernel", axes);
  const PoolOptions options{.kernel = kernel,
                            .stride = stride_of(kernel, integers("stride", axes)),
                            .padding = integers("padding", axes),
                            .count_include_pad = boolean("count_include_pad"),
                            .ceil_mode = boolean("ceil_mode")};
  const auto pool = axes == 1 ? avg_pool1d : axes == 2 ? avg_pool2d : avg_pool3d;
  return pool(x, options, CallSite::current());
}

template <int axes>
AdaptiveMaxPool<axes>::AdaptiveMaxPool(const Dims& size)
    : Layer(call_of(kAdaptiveMaxPool[axes - 1], {window_value(size)}, CallSite::current())) {}

template <int axes> NDArray AdaptiveMaxPool<axes>::compute(const NDArray& x) {
  const auto pool = axes == 1 ? adaptive_max_pool1d : axes == 2 ? adaptive_max_pool2d : adaptive_max_pool3d;
  return pool(x, integers("output_size", axes), CallSite::current());
}

template <int axes>
AdaptiveAvgPool<axes>::AdaptiveAvgPool(const Dims& size)
    : Layer(call_of(kAdaptiveAvgPool[axes - 1], {window_value(size)}, CallSite::current())) {}

template <int axes> NDArray AdaptiveAvgPool<axes>::compute(const NDArray& x) {
  const auto pool = axes == 1 ? adaptive_avg_pool1d : axes == 2 ? adaptive_avg_pool2d : adaptive_avg_pool3d;
  return pool(x, integers("output_size", axes), CallSite::current());
}

GlobalMaxPool::GlobalMaxPool() : Layer(call_of("GlobalMaxPool", {}, CallSite::current())) {}

NDArray GlobalMaxPool::compute(const NDArray& x) {
  return squeeze(adaptive_max_pool1d(flat_channels(x), 1), 2);
}

GlobalAvgPool::GlobalAvgPool() : Layer(call_of("GlobalAvgPool", {}, CallSite::current())) {}

NDArray GlobalAvgPool::compute(const NDArray& x) { return mean(flat_channels(x), 2); }

template class MaxPool<1>;
template class MaxPool<2>;
template class MaxPool<3>;
template class AvgPool<1>;
template class AvgPool<2>;
template class AvgPool<3>;
template class AdaptiveMaxPool<1>;
template class AdaptiveMaxPool<2>;
template class AdaptiveMaxPool<3>;
template class AdaptiveAvgPool<1>;
template class AdaptiveAvgPool<2>;
template class AdaptiveAvgPool<3>;

HEDDLE_LAYERS(pooling) {
  table.family("Layers without weights");
  add_windows<1>(table);
  add_windows<2>(table);
  add_windows<3>(table);
  add_adaptive<1>(table);
  add_adaptive<2>(table);
  add_adaptive<3>(table);
  table.add<GlobalMaxPool>(global_spec("GlobalMaxPool", "The largest element of each channel."));
  table.add<GlobalAvgPool>(global_spec("GlobalAvgPool", "The mean of each channel."));
}

}  // namespace heddle
