// Gradients at edges, poles and ties of functions: the limit of the slope if it exists, else what the header
// of the function promises.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>

namespace heddle {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

using Function = std::function<NDArray(const NDArray&)>;

// The gradient of sum(f(x)) for each element of x, computed in dtype.
std::vector<double> slopes(const Function& f, const std::vector<double>& x, DType dtype = DType::f64) {
  NDArray leaf = array(x, {static_cast<std::int64_t>(x.size())}).astype(dtype);
  set_requires_grad(leaf);
  backward(sum(f(leaf)));
  return grad(leaf).astype(DType::f64).to_vector<double>();
}

void check_slopes(const Function& f, const std::vector<double>& x, const std::vector<double>& expected) {
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    CAPTURE(name_of(dtype));
    const std::vector<double> got = slopes(f, x, dtype);
    for (std::size_t i = 0; i < x.size(); ++i) {
      CAPTURE(x[i]);
      if (std::isnan(expected[i])) {
        CHECK(std::isnan(got[i]));
      } else if (std::isinf(expected[i])) {
        CHECK(got[i] == expected[i]);
      } else {
        CHECK(got[i] == doctest::Approx(expected[i]).epsilon(0.01));
      }
    }
  }
}

}  // namespace

TEST_CASE("power at base 0: the base's gradient") {
  for (const double b : {-0.5, -1.0, -3.0}) {
    CAPTURE(b);
    check_slopes([=](const NDArray& x) { return power(x, b); }, {0}, {-kInf});
    check_slopes([=](const NDArray& x) { return power(x, full({1}, b, x.dtype())); }, {0}, {-kInf});
  }
  const std::vector<std::pair<double, double>> finite = {{0, 0},   {0.5, kInf}, {1, 1},
                                                         {1.5, 0}, {2, 0},      {3, 0}};
  for (const auto& [b, slope] : finite) {
    CAPTURE(b);
    check_slopes([b = b](const NDArray& x) { return power(x, b); }, {0}, {slope});
    check_slopes([b = b](const NDArray& x) { return power(x, full({1}, b, x.dtype())); }, {0}, {slope});
  }
  check_slopes([](const NDArray& x) { return power(x, -2); }, {0, 2, -2}, {-kInf, -0.25, 0.25});
}

TEST_CASE("power at base 0: the exponent's gradient is its limit, -inf below 0") {
  const std::vector<double> exponents = {-3, -1, -0.5, 0, 0.5, 1, 3},
                            expected = {-kInf, -kInf, -kInf, 0, 0, 0, 0};
  check_slopes([](const NDArray& b) { return power(0, b); }, exponents, expected);
  check_slopes([](const NDArray& b) { return power(0.0, b); }, exponents, expected);
  check_slopes([](const NDArray& b) { return power(zeros({7}, b.dtype()), b); }, exponents, expected);
  check_slopes([](const NDArray& b) { return power(zeros({1}, DType::i64).astype(b.dtype()), b); }, exponents,
               expected);
}

TEST_CASE("both gradients of power at base 0 at once") {
  NDArray a = array<double>({0, 0, 0, 2}), b = array<double>({-1, 0, 2, -1});
  set_requires_grad(a);
  set_requires_grad(b);
  backward(sum(power(a, b)));
  CHECK(grad(a).to_vector<double>() == std::vector<double>{-kInf, 0, 0, -0.25});
  const std::vector<double> of_b = grad(b).to_vector<double>();
  CHECK(std::vector(of_b.begin(), of_b.begin() + 3) == std::vector<double>{-kInf, 0, 0});
  CHECK(of_b[3] == doctest::Approx(std::log(2) / 2));
}

TEST_CASE("the exponent's gradient of a negative base is NaN") {
  check_slopes([](const NDArray& b) { return power(-2, b); }, {2}, {kNan});
  check_slopes([](const NDArray& b) { return power(full({1}, -2, b.dtype()), b); }, {2}, {kNan});
}

TEST_CASE("poles of log, sqrt and division") {
  check_slopes([](const NDArray& x) { return log(x); }, {0, 2, kInf, kNan}, {kInf, 0.5, 0, kNan});
  check_slopes([](const NDArray& x) { return sqrt(x); }, {0, 4, kInf}, {kInf, 0.25, 0});
  check_slopes([](const NDArray& x) { return sqrt(x); }, {-1}, {kNan});
  check_slopes([](const NDArray& x) { return 1 / x; }, {0, -0.0, 2}, {-kInf, -kInf, -0.25});
  check_slopes([](const NDArray& x) { return x / zeros({2}, x.dtype()); }, {1, 0}, {kInf, kInf});
  check_slopes([](const NDArray& x) { return zeros({1}, x.dtype()) / x; }, {0}, {kNan});
}

TEST_CASE("edges and NaN of abs, relu and clip") {
  check_slopes([](const NDArray& x) { return abs(x); }, {-2, 0, -0.0, 3, kInf, -kInf, kNan},
               {-1, 0, 0, 1, 1, -1, kNan});
  check_slopes([](const NDArray& x) { return relu(x); }, {-2, 0, -0.0, 3, kInf, -kInf, kNan},
               {0, 0, 0, 1, 1, 0, 1});
  check_slopes([](const NDArray& x) { return clip(x, -1, 2); }, {-1.5, -1, 0, 2, 2.5, kInf, -kInf, kNan},
               {0, 1, 1, 1, 0, 0, 0, 1});
  check_slopes([](const NDArray& x) { return clip(x, 0, 0); }, {-1, 0, 1}, {0, 1, 0});
}

TEST_CASE("ties of maximum and minimum, and NaN") {
  check_slopes([](const NDArray& x) { return maximum(x, 1); }, {0, 1, 2, kInf, -kInf}, {0, 0.5, 1, 1, 0});
  check_slopes([](const NDArray& x) { return minimum(x, 1); }, {0, 1, 2, kInf, -kInf}, {1, 0.5, 0, 0, 1});
  check_slopes([](const NDArray& x) { return max(x); }, {2, 1, 2, 2}, {1.0 / 3, 0, 1.0 / 3, 1.0 / 3});
  check_slopes([](const NDArray& x) { return min(x); }, {kInf, -kInf, -kInf}, {0, 0.5, 0.5});
}

TEST_CASE("where the result is NaN, the gradient goes to what is NaN") {
  const auto beside = [](const std::vector<double>& other) {
    return array(other, {static_cast<std::int64_t>(other.size())});
  };
  const NDArray b = beside({1, kNan, kNan});
  const std::vector<double> a = {kNan, 1, kNan}, of_a = {1, 0, 0.5};
  for (const auto& f : {maximum, minimum}) {
    check_slopes([&](const NDArray& x) { return f(x, b.astype(x.dtype()), Where::current()); }, a, of_a);
    check_slopes([&](const NDArray& x) { return f(b.astype(x.dtype()), x, Where::current()); }, a, of_a);
    check_slopes([&](const NDArray& x) { return f(x, 1, Where::current()); }, {kNan}, {1});
    check_slopes([&](const NDArray& x) { return f(x, kNan, Where::current()); }, {1, kNan}, {0, 0.5});
  }
  using Extreme = NDArray (*)(const NDArray&, Dims, bool, Where);
  for (const Extreme f : {static_cast<Extreme>(max), static_cast<Extreme>(min)}) {
    check_slopes([&](const NDArray& x) { return f(x, {}, false, Where::current()); }, {1, kNan, 2},
                 {0, 1, 0});
    check_slopes([&](const NDArray& x) { return f(x, {}, false, Where::current()); }, {kNan, 3, kNan},
                 {0.5, 0, 0.5});
  }
  check_slopes([](const NDArray& x) { return sort(x); }, {kNan, 3}, {1, 1});
  check_slopes([](const NDArray& x) { return median(x); }, {1, kNan, 2}, {0, 1, 0});
  check_slopes([](const NDArray& x) { return slice(cummax(x), 0, {.begin = 2}); }, {1, kNan, 2}, {0, 1, 0});
  for (const auto& f : {scatter_max, scatter_min}) {
    const NDArray at = zeros({2}, DType::i64);
    check_slopes(
        [&](const NDArray& x) {
          return f(slice(x, 0, {.end = 1}), at, slice(x, 0, {.begin = 1}), 0, Where::current());
        },
        {1, kNan, 2}, {0, 1, 0});
  }
  const NDArray identity = eye(1);
  check_slopes(
      [&](const NDArray& x) {
        return linear(reshape(x, {1, 1}), identity.astype(x.dtype()), {}, {.relu = true});
      },
      {2}, {1});
}

TEST_CASE("a relu's gradient at NaN is the same in all operators, with and without create_graph") {
  for (const bool create_graph : {false, true}) {
    NDArray x = full({1, 1, 1, 1}, kNan);
    set_requires_grad(x);
    const auto slope = [&](const NDArray& y) {
      return grad({sum(y)}, {x}, {.create_graph = create_graph})[0].item<float>();
    };
    CHECK(slope(relu(x)) == 1);
    CHECK(slope(linear(x, ones({1, 1}), {}, {.relu = true})) == 1);
    CHECK(slope(conv2d(x, ones({1, 1, 1, 1}), {}, {.relu = true})) == 1);
  }
}

TEST_CASE("elements that a quantile lies between share its gradient, equal ones too") {
  check_slopes([](const NDArray& x) { return median(x); }, {1, 5, 5, 9}, {0, 0.5, 0.5, 0});
  check_slopes([](const NDArray& x) { return median(x); }, {1, 4, 6, 9}, {0, 0.5, 0.5, 0});
  check_slopes([](const NDArray& x) { return quantile(x, 0.25); }, {3, 3, 7}, {0.5, 0.5, 0});
  check_slopes([](const NDArray& x) { return median(x); }, {kInf, kInf}, {0.5, 0.5});
  check_slopes([](const NDArray& x) { return median(x); }, {-kInf, kInf}, {0.5, 0.5});
  check_slopes([](const NDArray& x) { return median(x); }, {5, 1, 3}, {0, 0, 1});
  NDArray q = array<double>({0.25, 0.5});
  set_requires_grad(q);
  backward(sum(quantile(array<double>({1, 2, 4, 4}), q)));
  CHECK(grad(q).to_vector<double>() == std::vector<double>{3, 6});
}

TEST_CASE("logsumexp of infinities") {
  const auto f = [](const NDArray& x) { return logsumexp(x); };
  check_slopes(f, {-kInf, -kInf}, {0, 0});
  check_slopes(f, {-kInf, 1}, {0, 1});
  check_slopes(f, {2, 2}, {0.5, 0.5});
  check_slopes(f, {1000, 0}, {1, 0});
  NDArray x = full({2, 2}, -kInf, DType::f64);
  set_requires_grad(x);
  const NDArray first = grad({sum(logsumexp(x, {1}))}, {x}, {.create_graph = true})[0];
  CHECK(grad({sum(first)}, {x})[0].to_vector<double>() == std::vector<double>(4, 0));
}

TEST_CASE("norms of zeros have the gradient 0") {
  for (const double p : {0.5, 1.0, 1.5, 2.0, 3.0, -1.0})
    check_slopes([=](const NDArray& x) { return norm(x, p); }, {0, 0}, {0, 0});
  check_slopes([](const NDArray& x) { return norm(x, 3); }, {0, 2}, {0, 1});
}

TEST_CASE("what is constant stays on the tape") {
  check_slopes([](const NDArray& x) { return norm(x, 0); }, {1, 0}, {0, 0});
  check_slopes([](const NDArray& x) { return matrix_power(outer(x, x), 0); }, {1, 2}, {0, 0});
  check_slopes([](const NDArray& x) { return power(x, 0); }, {1, 0, 2}, {0, 0, 0});
  check_slopes([](const NDArray& x) { return floor(x) + sign(x); }, {1, 0, 2}, {0, 0, 0});
  check_slopes([](const NDArray& x) { return dropout(x, 1, default_generator(), true); }, {1, 2}, {0, 0});
  NDArray x = eye(2, DType::f64);
  set_requires_grad(x);
  const NDArray first = grad({sum(matrix_power(x, 0) * x)}, {x}, {.create_graph = true})[0];
  CHECK(grad({sum(first)}, {x})[0].to_vector<double>() == std::vector<double>(4, 0));
}

TEST_CASE("saturations of sigmoid, tanh and exp") {
  check_slopes([](const NDArray& x) { return sigmoid(x); }, {-kInf, -1000, 0, 1000, kInf, kNan},
               {0, 0, 0.25, 0, 0, kNan});
  check_slopes([](const NDArray& x) { return tanh(x); }, {-kInf, -1000, 0, 1000, kInf, kNan},
               {0, 0, 1, 0, 0, kNan});
  check_slopes([](const NDArray& x) { return exp(x); }, {-kInf, 0, kInf, kNan}, {0, 1, kInf, kNan});
  check_slopes([](const NDArray& x) { return square(x); }, {-kInf, 0, kInf, kNan}, {-kInf, 0, kInf, kNan});
}

TEST_CASE("softmax and cross entropy of extreme numbers") {
  check_slopes(
      [](const NDArray& x) {
        return softmax(x) * array<float>({1, 0}).astype(x.dtype());
      },
      {1000, 0}, {0, 0});
  check_slopes(
      [](const NDArray& x) {
        return log_softmax(x) * array<float>({0, 1}).astype(x.dtype());
      },
      {1000, 0}, {-1, 1});
  check_slopes(
      [](const NDArray& x) {
        return cross_entropy(reshape(x, {1, 2}), array<std::int32_t>({1}));
      },
      {1000, 0}, {1, -1});
}

TEST_CASE("logaddexp of infinities: each one's share") {
  const std::vector<double> a = {2, kInf, -kInf, 1, -kInf, kInf, kNan, 3, -800},
                            b = {kInf, 2, 1, -kInf, -kInf, kInf, 1, 3, 0},
                            of_a = {0, 1, 0, 1, 0.5, 0.5, kNan, 0.5, 0};
  const auto beside = [](const std::vector<double>& other) {
    return [other](const NDArray& x) {
      return logaddexp(x, array(other, {static_cast<std::int64_t>(other.size())}).astype(x.dtype()));
    };
  };
  std::vector<double> of_b;
  for (const double share : of_a) of_b.push_back(1 - share);
  check_slopes(beside(b), a, of_a);
  check_slopes(beside(a), b, of_b);
  check_slopes([](const NDArray& x) { return logaddexp(x, 1); }, {kInf, -kInf, 1}, {1, 0, 0.5});
}

}  // namespace heddle
