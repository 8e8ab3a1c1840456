// Layers that change the shape or add a border, and the identity.
#pragma once

#include <cstdint>

#include <heddle/layer.h>

namespace heddle {

// Returns x itself: a layer that does nothing.
class Identity : public Layer {
 public:
  using Layer::Layer;
  Identity();

 private:
  NDArray compute(const NDArray& x) override;
};

// Splits an axis into axes of these sizes, of which one may be -1; negative axes count from the end.
class Unflatten : public Layer {
 public:
  using Layer::Layer;
  Unflatten(int axis, const Dims& sizes);

 private:
  NDArray compute(const NDArray& x) override;
};

// The layers below add `before` elements in front of each spatial axis of x (batch, channels, ...), and `after` behind it, as pad does:
// one number for all axes, or one for each. Empty `after`: as `before`.
#define HEDDLE_DECLARE_PAD_LAYER(layer)                                                                     \
  class layer : public Layer {                                                                              \
   public:                                                                                                  \
    using Layer::Layer;                                                                                     \
    explicit layer(const Dims& before, const Dims& after = {});                                             \
    explicit layer(const std::int64_t (&before)[2], const Dims& after = {}) : layer(Dims(before), after) {} \
                                                                                                            \
   private:                                                                                                 \
    NDArray compute(const NDArray& x) override;                                                             \
  };
HEDDLE_DECLARE_PAD_LAYER(ZeroPad)         // zeros
HEDDLE_DECLARE_PAD_LAYER(ReflectionPad)   // the array mirrored at its edge elements
HEDDLE_DECLARE_PAD_LAYER(ReplicationPad)  // the elements at the edge
HEDDLE_DECLARE_PAD_LAYER(CircularPad)     // the elements at the other end
#undef HEDDLE_DECLARE_PAD_LAYER

}  // namespace heddle
