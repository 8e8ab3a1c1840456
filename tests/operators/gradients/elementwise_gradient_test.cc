#include <cmath>
#include <gradient_check.h>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/random.h>

namespace heddle {

using testing::check_gradients;

namespace {

NDArray values(Shape shape, double low, double high, std::uint64_t seed) {
  return Generator(seed).uniform(shape, low, high, DType::f64);
}

using Unary = NDArray (*)(const NDArray&, Where);
using Binary = NDArray (*)(const Operand&, const Operand&, Where);

const std::vector<std::pair<Shape, Shape>> kBroadcasts = {
    {{}, {}},      {{5}, {}}, {{3, 4}, {3, 4}}, {{4}, {3, 4}}, {{3, 1}, {1, 4}}, {{2, 3, 2, 2}, {3, 1, 1}},
    {{0, 3}, {3}},
};

}  // namespace

TEST_CASE("gradients of unary operators") {
  const std::vector<Unary> smooth = {negative, square, exp, tanh, sigmoid};
  for (const Shape& shape : {Shape{}, Shape{3, 4}, Shape{0, 2}}) {
    for (Unary f : smooth)
      check_gradients([f](const auto& x) { return f(x[0], Where::current()); }, {values(shape, -2, 2, 1)});
    for (Unary f : {Unary(log), Unary(sqrt)}) {
      check_gradients([f](const auto& x) { return f(x[0], Where::current()); }, {values(shape, 0.3, 3, 2)});
    }
  }
  const NDArray off_zero = array<double>({-2, -0.5, 0.25, 3}, {2, 2});
  check_gradients([](const auto& x) { return abs(x[0]); }, {off_zero});
  check_gradients([](const auto& x) { return relu(x[0]); }, {off_zero});
  check_gradients([](const auto& x) { return clip(x[0], -1, 2.5); }, {off_zero});
  check_gradients([](const auto& x) { return tanh(transpose(x[0])); }, {values({3, 4}, -2, 2, 3)});
}

TEST_CASE("relu lets the gradient of a NaN through, and NaN gradients") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : {DType::f32, DType::f64}) {
    NDArray x = array<double>({nan, -1, 0, 2, 3}).astype(dtype);
    set_requires_grad(x);
    const NDArray y = relu(x);
    backward(y, array<double>({5, 6, 7, 8, nan}).astype(dtype));
    CHECK(std::isnan(y.astype(DType::f64)[0].item<double>()));
    const auto gradients = grad(x).astype(DType::f64).to_vector<double>();
    CHECK(std::vector(gradients.begin(), gradients.begin() + 4) == std::vector<double>{5, 0, 0, 8});
    CHECK(std::isnan(gradients[4]));
  }
}

TEST_CASE("gradients of binary operators, broadcast") {
  for (const auto& [a, b] : kBroadcasts) {
    for (Binary f : {Binary(add), Binary(subtract), Binary(multiply), Binary(divide), Binary(power),
                     Binary(maximum), Binary(minimum)}) {
      check_gradients([f](const auto& x) { return f(x[0], x[1], Where::current()); },
                      {values(a, 0.5, 2, 4), values(b, 0.5, 2, 5)});
    }
  }
}

TEST_CASE("gradients of one operand beside a number") {
  const NDArray x = values({3, 4}, 0.5, 2, 6);
  for (Binary f : {Binary(add), Binary(subtract), Binary(multiply), Binary(divide), Binary(power),
                   Binary(maximum), Binary(minimum)}) {
    for (double number : {1.25, 3.0}) {
      check_gradients([=](const auto& in) { return f(in[0], number, Where::current()); }, {x});
      check_gradients([=](const auto& in) { return f(number, in[0], Where::current()); }, {x});
    }
  }
}

TEST_CASE("gradients of where") {
  for (const auto& [a, b] : kBroadcasts) {
    const NDArray condition = Generator(7).bernoulli(broadcast_shapes(a, b), 0.5, DType::boolean);
    check_gradients([](const auto& x) { return where(x[0], x[1], x[2]); },
                    {condition, values(a, -1, 1, 8), values(b, -1, 1, 9)});
  }
  const NDArray condition = array<bool>({true, false, true});
  check_gradients([](const auto& x) { return where(x[0], x[1], 2); }, {condition, values({2, 3}, -1, 1, 10)});
  check_gradients([](const auto& x) { return where(x[0], 2, x[1]); }, {condition, values({2, 3}, -1, 1, 10)});
}

TEST_CASE("gradients where there are several are the ones promised") {
  NDArray a = array<double>({1, 2, 3}), b = array<double>({2, 2, 2}), zero = zeros({1}, DType::f64);
  for (NDArray* x : {&a, &b, &zero}) set_requires_grad(*x);
  backward(sum(maximum(a, b)));
  CHECK(grad(a).to_vector<double>() == std::vector<double>{0, 0.5, 1});
  CHECK(grad(b).to_vector<double>() == std::vector<double>{1, 0.5, 0});
  clear_grad(a);
  backward(sum(minimum(a, 2)));
  CHECK(grad(a).to_vector<double>() == std::vector<double>{1, 0.5, 0});
  clear_grad(a);
  backward(sum(clip(a, 1, 2)));
  CHECK(grad(a).to_vector<double>() == std::vector<double>{1, 1, 0});
  for (const NDArray& y : {abs(zero), relu(zero), power(zero, 0)}) {
    clear_grad(zero);
    backward(y);
    CHECK(grad(zero).item<double>() == 0);
  }
  clear_grad(zero);
  backward(power(zero, zeros({1}, DType::f64)));
  CHECK(grad(zero).item<double>() == 0);
  clear_grad(zero);
  backward(power(zero, 1));
  CHECK(grad(zero).item<double>() == 1);
}

TEST_CASE("the gradient of power's exponent at base 0 is its limit") {
  NDArray exponent = array<double>({2, 3});
  set_requires_grad(exponent);
  backward(sum(power(array<double>({0, 2}), exponent)));
  CHECK(grad(exponent).to_vector<double>()[0] == 0);
  CHECK(grad(exponent).to_vector<double>()[1] == doctest::Approx(8 * 0.6931471805599453));
}

TEST_CASE("gradients in f32 stay f32") {
  NDArray x = array<float>({1, 2, 3});
  set_requires_grad(x);
  backward(sum(sigmoid(x * 2.5) / 3 + power(x, 2) - maximum(x, 2)));
  CHECK(grad(x).dtype() == DType::f32);
}

}  // namespace heddle
