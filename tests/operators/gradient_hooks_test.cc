// Hooks on gradients, and FindNaN.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/error.h>
#include <heddle/ops.h>

using namespace heddle;

namespace {

using Doubles = std::vector<double>;

NDArray leaf(std::initializer_list<double> values) {
  NDArray x = array<double>(values);
  set_requires_grad(x);
  return x;
}

Doubles gradient_of(const NDArray& x) { return grad(x).to_vector<double>(); }

}  // namespace

TEST_CASE("a hook sees the complete gradient of an array, and may change it") {
  const NDArray x = leaf({1, 2});
  const NDArray y = x * 3;
  std::vector<Doubles> seen;
  on_gradient(y, [&](const NDArray& g) {
    seen.push_back(g.to_vector<double>());
    return g * 10;
  });
  on_gradient(x, [&](const NDArray& g) {
    seen.push_back(g.to_vector<double>());
    return NDArray();
  });
  backward(sum(y) + sum(y * y) + sum(x[1]));  // 1 + 2y for y, by three uses
  CHECK(seen == std::vector<Doubles>{{7, 13}, {210, 391}});
  CHECK(gradient_of(x) == Doubles{210, 391});
  backward(sum(x * 2));
  CHECK(gradient_of(x) == Doubles{212, 393});
  CHECK(seen.back() == Doubles{2, 2});
}

TEST_CASE("hooks of a leaf change what is added to it, in every kind of pass") {
  const NDArray x = leaf({3, -4});
  on_gradient(x, [](const NDArray& g) { return clip(g, -1, 1); });
  on_gradient(x, [](const NDArray& g) { return g * 2; });
  backward(sum(x * x));
  CHECK(gradient_of(x) == Doubles{2, -2});
  CHECK(grad({sum(x * x)}, {x})[0].to_vector<double>() == Doubles{2, -2});
  clear_grad(x);
  backward(sum(x.slice(0, {1, 2}) * 0.25), {.create_graph = true});
  CHECK(gradient_of(x) == Doubles{0, 0.5});
}

TEST_CASE("wrong hooks") {
  const NDArray x = leaf({1}), y = exp(x);
  CHECK_THROWS_WITH_AS(on_gradient(x, {}), "on_gradient: the hook is empty", InvalidArgument);
  CHECK_THROWS_WITH_AS(on_gradient(x.detach(), [](const NDArray& g) { return g; }),
                       "on_gradient: the array requires no gradient", InvalidArgument);
  on_gradient(y, [](const NDArray&) { return zeros({2}, DType::f64); });
  CHECK_THROWS_WITH_AS(backward(y), "on_gradient: the hook of exp returned f64(2,) for a gradient f64(1,)",
                       Error);
}

TEST_CASE("FindNaN names the operator whose gradient first has NaN, and its line") {
  const NDArray x = leaf({0, 1});
  const auto loss = [&] { return sum(exp(sqrt(x * 0) * x)); };  // sqrt's gradient at 0 is inf; times 0, NaN
  const int line = __LINE__ - 1;
  backward(loss());
  CHECK(std::isnan(gradient_of(x)[0]));
  const FindNaN finder;
  std::string message;
  try {
    backward(loss());
  } catch (const Error& error) {
    message = error.what();
  }
  CAPTURE(message);
  CHECK(message.find("its gradient for input 0 has NaN, the first one of this pass; called at ") !=
        std::string::npos);
  CHECK(message.ends_with("gradient_hooks_test.cc:" + std::to_string(line)));
  CHECK((message.starts_with("sqrt: ") || message.starts_with("multiply: ")));
  backward(sum(x));
}
