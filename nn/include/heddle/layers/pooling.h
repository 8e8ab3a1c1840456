// Layers that pool.
#pragma once

#include <cstdint>

#include <heddle/layer.h>

namespace heddle {

// The largest element of each window. `kernel` is 2, or {2, 3} along height and width; stride 0 means kernel.
class MaxPool2d : public Layer {
 public:
  using Layer::Layer;
  explicit MaxPool2d(const Dims& kernel, const Dims& stride = 0, const Dims& padding = 0);
  explicit MaxPool2d(const std::int64_t (&kernel)[2], const Dims& stride = 0, const Dims& padding = 0)
      : MaxPool2d(Dims(kernel), stride, padding) {}

 private:
  NDArray compute(const NDArray& x) override;
};
// The mean of each window.
class AvgPool2d : public Layer {
 public:
  using Layer::Layer;
  explicit AvgPool2d(const Dims& kernel, const Dims& stride = 0, const Dims& padding = 0);
  explicit AvgPool2d(const std::int64_t (&kernel)[2], const Dims& stride = 0, const Dims& padding = 0)
      : AvgPool2d(Dims(kernel), stride, padding) {}

 private:
  NDArray compute(const NDArray& x) override;
};

}  // namespace heddle
