// Compares gradients, computed in f64, with central differences.
#pragma once

#include <algorithm>
#include <arguments.h>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/check.h>
#include <heddle/elementwise.h>
#include <heddle/error.h>
#include <heddle/ndarray.h>
#include <heddle/random.h>
#include <heddle/reduce.h>

#include "arguments.h"

namespace heddle::testing {

using Function = std::function<NDArray(const std::vector<NDArray>&)>;

// The loss of a result y: its scalar product with fixed random weights, so that no gradient cancels by
// chance.
inline double weighted_sum(const NDArray& y, const std::vector<double>& weights) {
  const std::vector<double> values = y.to_vector<double>();
  double total = 0;
  for (std::size_t i = 0; i < values.size(); ++i) total += values[i] * weights[i];
  return total;
}

// Returns copies of all inputs, and a list of those copies that are f64, which are set to require a gradient.
inline std::pair<std::vector<NDArray>, std::vector<NDArray>> leaves_of(const std::vector<NDArray>& inputs) {
  std::vector<NDArray> all, leaves;
  for (const NDArray& input : inputs) {
    all.push_back(input.detach().copy());
    if (input.dtype() != DType::f64) continue;
    set_requires_grad(all.back());
    leaves.push_back(all.back());
  }
  return {all, leaves};
}

// The scalar product of the gradients of f by its inputs with fixed random weights.
inline NDArray weighted_gradients(const Function& f, const std::vector<NDArray>& inputs,
                                  const std::vector<NDArray>& leaves, bool create_graph) {
  const NDArray y = f(inputs);
  const NDArray seed = Generator(11).uniform(y.shape(), 0.5, 1.5, DType::f64);
  const std::vector<NDArray> gradients =
      grad({y}, leaves, {.seeds = {seed}, .create_graph = create_graph, .allow_unused = true});
  NDArray total = zeros({}, DType::f64);
  Generator generator(12);
  for (const NDArray& gradient : gradients) {
    if (!gradient.defined()) continue;
    total = total + sum(gradient * generator.uniform(gradient.shape(), 0.5, 1.5, DType::f64));
  }
  return total;
}

// Compares second gradients, that is the gradients of weighted_gradients(), with difference quotients.
inline void check_second_gradients(const Function& f, const std::vector<NDArray>& inputs, double tolerance,
                                   double step) {
  const auto [arguments, leaves] = leaves_of(inputs);
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].dtype() == DType::f64) places.push_back(i);
  const NDArray total = weighted_gradients(f, arguments, leaves, true);
  if (!requires_grad(total)) return;  // the result of f has no elements
  const std::vector<NDArray> second = grad({total}, leaves, {.allow_unused = true});
  for (std::size_t k = 0; k < leaves.size(); ++k) {
    const std::vector<double> values = leaves[k].to_vector<double>();
    std::vector<double> gradient(values.size(), 0);
    if (second[k].defined()) gradient = second[k].to_vector<double>();
    const auto total_at = [&](std::size_t i, double value) {
      std::vector<double> moved = values;
      moved[i] = value;
      std::vector<NDArray> there = inputs;
      there[places[k]] = array<double>(moved, inputs[places[k]].shape());
      const auto [all, fresh] = leaves_of(there);
      return weighted_gradients(f, all, fresh, false).item<double>();
    };
    // With a sanitizer or the access checker two elements of each input suffice, since only the code paths
    // matter.
    const std::size_t stride =
        test::kSanitized || check::enabled() ? std::max<std::size_t>(values.size() / 2, 1) : 1;
    for (std::size_t i = 0; i < values.size(); i += stride) {
      const double expected = (total_at(i, values[i] + step) - total_at(i, values[i] - step)) / (2 * step);
      const double allowed = tolerance * std::max({1.0, std::abs(expected), std::abs(gradient[i])});
      CHECK_MESSAGE(std::abs(gradient[i] - expected) <= allowed, "input ", k, " element ", i,
                    ": second gradient ", gradient[i], ", difference quotient ", expected);
    }
  }
}

// Compares the gradient of each element of each f64 input of f with (f(x + step) - f(x - step)) / (2 step).
// f's result is f64 of any shape. Second gradients are compared likewise, with ten times the tolerance.
// Inputs of other dtypes are passed unchanged. f must be smooth within `step`.
inline void check_gradients(const Function& f, const std::vector<NDArray>& inputs, double tolerance = 1e-6,
                            double step = 1e-5) {
  check_second_gradients(f, inputs, 10 * tolerance, step);
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
