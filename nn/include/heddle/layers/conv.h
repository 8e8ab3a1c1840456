// Layers that convolve.
#pragma once

#include <cstdint>
#include <string>

#include <heddle/layer_init.h>
#include <heddle/module.h>
#include <heddle/ndarray.h>
#include <heddle/random.h>

namespace heddle {

struct Conv2dLayerOptions {
  std::int64_t stride = 1, padding = 0;
  bool bias = true, relu = false;
  Init init = Init::he;
  Device device{};
};

// x (batch, in, h, w) -> (batch, out, h', w'). Parameters: weight (out, in, kernel, kernel), bias (out).
class Conv2d : public Module {
 public:
  Conv2d(std::int64_t in, std::int64_t out, std::int64_t kernel, Conv2dLayerOptions options = {},
         Generator& generator = default_generator(), Where where = Where::current());
  std::string to_string() const override;

 private:
  NDArray forward(const NDArray& x) override;
  std::int64_t in_, out_, kernel_, stride_, padding_;
  bool relu_;
  NDArray weight_, bias_;
};

}  // namespace heddle
