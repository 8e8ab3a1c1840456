// Layers without parameters that compute element by element or change the shape.
#pragma once

#include <heddle/module.h>
#include <heddle/ndarray.h>

namespace heddle {

// max(x, 0) of each element.
class Relu : public Module {
  NDArray forward(const NDArray& x) override;
};
// tanh(x) of each element.
class Tanh : public Module {
  NDArray forward(const NDArray& x) override;
};
// 1 / (1 + exp(-x)) of each element.
class Sigmoid : public Module {
  NDArray forward(const NDArray& x) override;
};

// (batch, a, b, ...) -> (batch, a * b * ...)
class Flatten : public Module {
  NDArray forward(const NDArray& x) override;
};

}  // namespace heddle
