// The fully connected layer.
#pragma once

#include <cstdint>
#include <string>

#include <heddle/layer_init.h>
#include <heddle/module.h>
#include <heddle/ndarray.h>
#include <heddle/random.h>

namespace heddle {

struct DenseOptions {
  bool bias = true, relu = false;  // relu: max(0, .) of the result
  Init init = Init::he;
  Device device{};
};

// x (batch, in) -> x * weight^T + bias (batch, out). Parameters: weight (out, in), bias (out).
class Dense : public Module {
 public:
  Dense(std::int64_t in, std::int64_t out, DenseOptions options = {},
        Generator& generator = default_generator(), Where where = Where::current());
  std::string to_string() const override;

 private:
  NDArray forward(const NDArray& x) override;
  std::int64_t in_, out_;
  bool relu_;
  NDArray weight_, bias_;
};

}  // namespace heddle
