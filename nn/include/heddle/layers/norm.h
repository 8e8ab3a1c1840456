// Layers that normalise. Parameters: weight, which begins at 1, and bias, at 0, of the size that is normalised.
#pragma once

#include <cstdint>

#include <heddle/layer.h>

namespace heddle {

struct NormOptions {
  double epsilon = 1e-5;
  bool weight = true, bias = true;  // false: the layer has no such parameter
  Device device{};
};

// layer_norm over the last axis, of `features` elements, which may be kInferred.
class LayerNorm : public Layer {
 public:
  using Layer::Layer;
  explicit LayerNorm(std::int64_t features, const NormOptions& options = {}, Where where = Where::current());

 private:
  NDArray compute(const NDArray& x) override;
};

struct RmsNormOptions {
  double epsilon = 1e-6;
  Device device{};
};

// rms_norm over the last axis. Parameter: weight alone.
class RmsNorm : public Layer {
 public:
  using Layer::Layer;
  explicit RmsNorm(std::int64_t features, const RmsNormOptions& options = {}, Where where = Where::current());

 private:
  NDArray compute(const NDArray& x) override;
};

// group_norm of x (batch, channels, ...). `channels`, a multiple of `groups`, may be kInferred.
class GroupNorm : public Layer {
 public:
  explicit GroupNorm(const LayerCall& call);
  GroupNorm(std::int64_t groups, std::int64_t channels, const NormOptions& options = {},
            Where where = Where::current());

 private:
  NDArray compute(const NDArray& x) override;
};

// Each channel of each element of the batch for itself: group_norm with as many groups as channels.
class InstanceNorm : public Layer {
 public:
  using Layer::Layer;
  explicit InstanceNorm(std::int64_t channels, const NormOptions& options = {.weight = false, .bias = false},
                        Where where = Where::current());

 private:
  NDArray compute(const NDArray& x) override;
};

struct BatchNormOptions {
  double epsilon = 1e-5;
  double momentum = 0.1;            // share of the batch in the running statistics
  bool weight = true, bias = true;  // false: the layer has no such parameter
  Device device{};
};

// batch_norm of x (batch, channels, ...) in training, which also updates the buffers running_mean and running_var (with n / (n - 1)
// times the variance of n elements); with these buffers in inference.
class BatchNorm : public Layer {
 public:
  using Layer::Layer;
  explicit BatchNorm(std::int64_t channels, const BatchNormOptions& options = {},
                     Where where = Where::current());

 private:
  NDArray compute(const NDArray& x) override;
};

}  // namespace heddle
