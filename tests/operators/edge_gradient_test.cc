// Gradients where a function has an edge, a pole or a tie: the limit where there is one, and what the headers promise.
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
