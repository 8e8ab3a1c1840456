// Layers that act at random in training and are the identity in inference. See heddle/dropout.h.
#pragma once

#include <heddle/layer.h>
#include <heddle/random.h>

namespace heddle {

// What these layers have in common: they draw from a generator, which must outlive the layer, or from that of the calling thread.
class RandomLayer : public Layer {
 protected:
  explicit RandomLayer(const LayerCall& call, Generator* generator = nullptr)
      : Layer(call), generator_(generator) {}
  Generator& generator() const { return generator_ ? *generator_ : default_generator(); }

 private:
  Generator* generator_;  // null: the calling thread's
};

// `probability` is that of an element, or of a channel, to be dropped: 0 or more and less than 1.
#define HEDDLE_DECLARE_DROPOUT_LAYER(layer, number) \
  class layer : public RandomLayer {                \
   public:                                          \
    explicit layer(const LayerCall& call);          \
    explicit layer(double number);                  \
    layer(double number, Generator& generator);     \
                                                    \
   private:                                         \
    NDArray compute(const NDArray& x) override;     \
  };
HEDDLE_DECLARE_DROPOUT_LAYER(Dropout, probability)
HEDDLE_DECLARE_DROPOUT_LAYER(ChannelDropout, probability)  // of whole channels of x (batch, channels, ...)
HEDDLE_DECLARE_DROPOUT_LAYER(Dropout1d, probability)       // ChannelDropout of x (batch, channels, length)
HEDDLE_DECLARE_DROPOUT_LAYER(Dropout2d, probability)  // ChannelDropout of x (batch, channels, height, width)
HEDDLE_DECLARE_DROPOUT_LAYER(Dropout3d,
                             probability)  // ChannelDropout of x (batch, channels, depth, height, width)
HEDDLE_DECLARE_DROPOUT_LAYER(AlphaDropout, probability)         // behind Selu
HEDDLE_DECLARE_DROPOUT_LAYER(FeatureAlphaDropout, probability)  // AlphaDropout of whole channels
HEDDLE_DECLARE_DROPOUT_LAYER(GaussianDropout, probability)      // times normal numbers around 1
HEDDLE_DECLARE_DROPOUT_LAYER(GaussianNoise, stddev)  // plus normal numbers around 0; stddev is 0 or more
#undef HEDDLE_DECLARE_DROPOUT_LAYER

}  // namespace heddle
