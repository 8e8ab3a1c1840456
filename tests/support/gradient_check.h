// Gradients against central differences, in f64.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/elementwise.h>
#include <heddle/ndarray.h>
#include <heddle/random.h>

namespace heddle::testing {

using Function = std::function<NDArray(const std::vector<NDArray>&)>;

// The loss is the result's scalar product with fixed random weights, so that no gradient cancels by chance.
inline double weighted_sum(const NDArray& y, const std::vector<double>& weights) {
  const std::vector<double> values = y.to_vector<double>();
  double total = 0;
  for (std::size_t i = 0; i < values.size(); ++i) total += values[i] * weights[i];
  return total;
}

// Compares the gradient of each element of each f64 input of f, whose result is f64 of any shape, with
// (f(x + step) - f(x - step)) / (2 step). Inputs of other dtypes are passed on. f must be smooth within `step`.
inline void check_gradients(const Function& f, const std::vector<NDArray>& inputs, double tolerance = 1e-6,
                            double step = 1e-5) {
  std::vector<NDArray> leaves;
  for (const NDArray& input : inputs) {
    leaves.push_back(input.detach().copy());
    if (input.dtype() == DType::f64) set_requires_grad(leaves.back());
  }
  const NDArray y = f(leaves);
  REQUIRE(y.dtype() == DType::f64);
  const NDArray seed = Generator(11).uniform(y.shape(), 0.5, 1.5, DType::f64);
  const std::vector<double> weights = seed.to_vector<double>();
  backward(y, seed);
  NoGrad no_grad;
  for (std::size_t k = 0; k < leaves.size(); ++k) {
    if (inputs[k].dtype() != DType::f64) continue;
    REQUIRE(grad(leaves[k]).defined());
    REQUIRE(grad(leaves[k]).shape() == inputs[k].shape());
    const std::vector<double> gradient = grad(leaves[k]).to_vector<double>();
    const std::vector<double> values = inputs[k].to_vector<double>();
    const auto loss_at = [&](std::size_t i, double value) {
      std::vector<double> moved = values;
      moved[i] = value;
      std::vector<NDArray> arguments = inputs;
      arguments[k] = array<double>(moved, inputs[k].shape());
      return weighted_sum(f(arguments), weights);
    };
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double expected = (loss_at(i, values[i] + step) - loss_at(i, values[i] - step)) / (2 * step);
      const double allowed = tolerance * std::max({1.0, std::abs(expected), std::abs(gradient[i])});
      CHECK_MESSAGE(std::abs(gradient[i] - expected) <= allowed, "input ", k, " element ", i, ": gradient ",
                    gradient[i], ", difference quotient ", expected);
    }
  }
}

}  // namespace heddle::testing
