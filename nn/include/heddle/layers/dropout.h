// The layer that zeroes elements at random.
#pragma once

#include <heddle/layer.h>
#include <heddle/random.h>

namespace heddle {

// In training zeroes each element with this probability and scales the rest up by 1 / (1 - probability); the
// identity in inference. Draws from the generator, which must outlive the layer, or from that of the calling thread.
class Dropout : public Layer {
 public:
  explicit Dropout(const LayerCall& call);
  explicit Dropout(double probability);
  Dropout(double probability, Generator& generator);

 private:
  NDArray compute(const NDArray& x) override;
  Generator* generator_ = nullptr;  // null: the calling thread's
};

}  // namespace heddle
