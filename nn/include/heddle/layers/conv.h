// Layers that convolve.
#pragma once

#include <cstdint>

#include <heddle/layer.h>
#include <heddle/layer_init.h>
#include <heddle/random.h>

namespace heddle {

// stride, padding and dilation are along height and width; one number stands for both.
struct Conv2dLayerOptions {
  Dims stride = 1, padding = 0, dilation = 1;
  std::int64_t groups = 1;  // channels in and out are split into so many parts
  bool bias = true, relu = false;
  Init init = Init::he;
  Device device{};
};

// x (batch, in, h, w) -> (batch, out, h', w'), as conv2d. Parameters: weight (out, in / groups, kernel height, kernel width), bias
// (out). `in` may be kInferred; `kernel` is 3, or {3, 5}.
class Conv2d : public Layer {
 public:
  using Layer::Layer;
  Conv2d(std::int64_t in, std::int64_t out, const Dims& kernel, const Conv2dLayerOptions& options = {},
         Generator& generator = default_generator(), Where where = Where::current());

 private:
  NDArray compute(const NDArray& x) override;
};

struct Conv1dLayerOptions {
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
  bool bias = true, relu = false;
  Init init = Init::he;
  Device device{};
};

// x (batch, in, length) -> (batch, out, length'), as conv1d. Parameters: weight (out, in / groups, kernel), bias (out).
class Conv1d : public Layer {
 public:
  using Layer::Layer;
  Conv1d(std::int64_t in, std::int64_t out, std::int64_t kernel, const Conv1dLayerOptions& options = {},
         Generator& generator = default_generator(), Where where = Where::current());

 private:
  NDArray compute(const NDArray& x) override;
};

// Along height and width; one number stands for both.
struct ConvTranspose2dLayerOptions {
  Dims stride = 1, padding = 0, output_padding = 0, dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  Init init = Init::he;
  Device device{};
};

// x (batch, in, h, w) -> (batch, out, h', w'), as conv_transpose2d. Parameters: weight (in, out / groups, kernel height, kernel width),
// bias (out).
class ConvTranspose2d : public Layer {
 public:
  using Layer::Layer;
  ConvTranspose2d(std::int64_t in, std::int64_t out, const Dims& kernel,
                  const ConvTranspose2dLayerOptions& options = {}, Generator& generator = default_generator(),
                  Where where = Where::current());

 private:
  NDArray compute(const NDArray& x) override;
};

}  // namespace heddle
