// The fully connected layer.
#pragma once

#include <cstdint>

#include <heddle/creation.h>
#include <heddle/layer.h>
#include <heddle/random.h>

namespace heddle {

struct DenseOptions {
  bool bias = true, relu = false;  // relu: max(0, .) of the result
  Init init = Init::he;
  Device device{};
};

// x (..., in) -> x * weight^T + bias (..., out). Parameters: weight (out, in), bias (out). `in` may be kInferred.
class Dense : public Layer {
 public:
  using Layer::Layer;
  Dense(std::int64_t in, std::int64_t out, DenseOptions options = {},
        Generator& generator = default_generator(), Where where = Where::current());

 private:
  NDArray compute(const NDArray& x) override;
};

}  // namespace heddle
