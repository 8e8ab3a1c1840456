// Layers that change the size of images, signals and volumes. See heddle/resample.h.
#pragma once

#include <cstdint>
#include <optional>

#include <heddle/layer.h>
#include <heddle/resample.h>

namespace heddle {

struct UpsampleOptions {
  Dims size = {};                    // sizes of the spatial axes, or one for all; empty: by `scale`
  std::optional<double> scale = {};  // of all spatial axes; none, without a size: 2
  Interpolation mode = Interpolation::nearest;
  bool align_corners = false;
};

// interpolate of x (batch, channels, ...) with one to three spatial axes. Throws InvalidArgument for a size and a scale.
class Upsample : public Layer {
 public:
  explicit Upsample(const LayerCall& call);
  explicit Upsample(const UpsampleOptions& options = {});

 private:
  NDArray compute(const NDArray& x) override;
};

// x (batch..., channels * factor^2, height, width) -> (batch..., channels, height * factor, width * factor).
class PixelShuffle : public Layer {
 public:
  using Layer::Layer;
  explicit PixelShuffle(std::int64_t factor);

 private:
  NDArray compute(const NDArray& x) override;
};
// The inverse.
class PixelUnshuffle : public Layer {
 public:
  using Layer::Layer;
  explicit PixelUnshuffle(std::int64_t factor);

 private:
  NDArray compute(const NDArray& x) override;
};

}  // namespace heddle
