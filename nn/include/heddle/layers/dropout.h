// The layer that zeroes elements at random.
#pragma once

#include <string>

#include <heddle/module.h>
#include <heddle/ndarray.h>
#include <heddle/random.h>

namespace heddle {

// In training zeroes each element with this probability and scales the rest up by 1 / (1 - probability); the
// identity in inference. Draws from the generator, which must outlive the layer, or from that of the calling thread.
class Dropout : public Module {
 public:
  explicit Dropout(double probability) : Dropout(probability, nullptr) {}
  Dropout(double probability, Generator& generator) : Dropout(probability, &generator) {}
  std::string to_string() const override;

 private:
  Dropout(double probability, Generator* generator);
  NDArray forward(const NDArray& x) override;
  double probability_;
  Generator* generator_;  // null: the calling thread's
};

}  // namespace heddle
