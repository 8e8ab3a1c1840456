// Layers that pool along one, two or three axes.
#pragma once

#include <cstdint>

#include <heddle/layer.h>

namespace heddle {

// The largest element of each window. `kernel` is 2, or {2, 3} along the axes; stride 0 means kernel. See max_pool1d.
template <int axes> class MaxPool : public Layer {
 public:
  explicit MaxPool(const LayerCall& call);
  explicit MaxPool(const Dims& kernel, const Dims& stride = 0, const Dims& padding = 0,
                   const Dims& dilation = 1, bool ceil_mode = false);
  explicit MaxPool(const std::int64_t (&kernel)[axes], const Dims& stride = 0, const Dims& padding = 0,
                   const Dims& dilation = 1, bool ceil_mode = false)
      : MaxPool(Dims(kernel), stride, padding, dilation, ceil_mode) {}

 private:
  NDArray compute(const NDArray& x) override;
};
extern template class MaxPool<1>;
extern template class MaxPool<2>;
extern template class MaxPool<3>;
using MaxPool1d = MaxPool<1>;
using MaxPool2d = MaxPool<2>;
using MaxPool3d = MaxPool<3>;

// The mean of each window. See avg_pool1d.
template <int axes> class AvgPool : public Layer {
 public:
  explicit AvgPool(const LayerCall& call);
  explicit AvgPool(const Dims& kernel, const Dims& stride = 0, const Dims& padding = 0,
                   bool count_include_pad = true, bool ceil_mode = false);
  explicit AvgPool(const std::int64_t (&kernel)[axes], const Dims& stride = 0, const Dims& padding = 0,
                   bool count_include_pad = true, bool ceil_mode = false)
      : AvgPool(Dims(kernel), stride, padding, count_include_pad, ceil_mode) {}

 private:
  NDArray compute(const NDArray& x) override;
};
extern template class AvgPool<1>;
extern template class AvgPool<2>;
extern template class AvgPool<3>;
using AvgPool1d = AvgPool<1>;
using AvgPool2d = AvgPool<2>;
using AvgPool3d = AvgPool<3>;

// The largest element of each of `size` windows along each axis, which cover the input. See adaptive_max_pool1d.
template <int axes> class AdaptiveMaxPool : public Layer {
 public:
  using Layer::Layer;
  explicit AdaptiveMaxPool(const Dims& size);
  explicit AdaptiveMaxPool(const std::int64_t (&size)[axes]) : AdaptiveMaxPool(Dims(size)) {}

 private:
  NDArray compute(const NDArray& x) override;
};
extern template class AdaptiveMaxPool<1>;
extern template class AdaptiveMaxPool<2>;
extern template class AdaptiveMaxPool<3>;
using AdaptiveMaxPool1d = AdaptiveMaxPool<1>;
using AdaptiveMaxPool2d = AdaptiveMaxPool<2>;
using AdaptiveMaxPool3d = AdaptiveMaxPool<3>;

// The mean of each of `size` windows along each axis, which cover the input. See adaptive_avg_pool1d.
template <int axes> class AdaptiveAvgPool : public Layer {
 public:
  using Layer::Layer;
  explicit AdaptiveAvgPool(const Dims& size);
  explicit AdaptiveAvgPool(const std::int64_t (&size)[axes]) : AdaptiveAvgPool(Dims(size)) {}

 private:
  NDArray compute(const NDArray& x) override;
};
extern template class AdaptiveAvgPool<1>;
extern template class AdaptiveAvgPool<2>;
extern template class AdaptiveAvgPool<3>;
using AdaptiveAvgPool1d = AdaptiveAvgPool<1>;
using AdaptiveAvgPool2d = AdaptiveAvgPool<2>;
using AdaptiveAvgPool3d = AdaptiveAvgPool<3>;

// The largest element of each channel: x (batch, channels, ...) -> (batch, channels), for any number of axes.
class GlobalMaxPool : public Layer {
 public:
  using Layer::Layer;
  GlobalMaxPool();

 private:
  NDArray compute(const NDArray& x) override;
};
// The mean of each channel: x (batch, channels, ...) -> (batch, channels), for any number of axes.
class GlobalAvgPool : public Layer {
 public:
  using Layer::Layer;
  GlobalAvgPool();

 private:
  NDArray compute(const NDArray& x) override;
};

}  // namespace heddle
