// The accuracy of sums, compared with sums in twice the precision.
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/random.h>

#include "arguments.h"

namespace heddle {
namespace {

__extension__ using Exact = __float128;
constexpr double kUlp = std::numeric_limits<double>::epsilon();

struct Totals {
  Exact sum = 0, size = 0;
  void add(double value) {
    sum += static_cast<Exact>(value);
    size += static_cast<Exact>(std::abs(value));
  }
  // The error of the sum `got`, in units in the last place (ulp) of the sum of absolute values.
  double error(double got) const {
    return static_cast<double>((static_cast<Exact>(got) - sum) / size) / kUlp;
  }
};

// The largest error of the sums `got` of an array x of three axes over the axes that are not `kept`.
double worst_error(const NDArray& x, const NDArray& got, const std::vector<bool>& kept) {
  const auto values = x.to_vector<double>();
  const Shape shape = x.shape();
  std::vector<Totals> totals(static_cast<std::size_t>(got.size()));
  std::size_t at = 0;
  for (std::int64_t i = 0; i < shape[0]; ++i) {
    for (std::int64_t j = 0; j < shape[1]; ++j) {
      for (std::int64_t k = 0; k < shape[2]; ++k) {
        std::int64_t result = kept[0] ? i : 0;
        result = kept[1] ? result * shape[1] + j : result;
        result = kept[2] ? result * shape[2] + k : result;
        totals[static_cast<std::size_t>(result)].add(values[at++]);
      }
    }
  }
  const auto sums = got.to_vector<double>();
  double worst = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) worst = std::max(worst, std::abs(totals[i].error(sums[i])));
  return worst;
}

NDArray tenths(Shape shape) { return full(shape, 0.1, DType::f64); }
NDArray positive(Shape shape) { return Generator(3).uniform(shape, 0, 1, DType::f64); }
NDArray mixed(Shape shape) { return Generator(4).normal(shape, 0, 1, DType::f64); }

}  // namespace

TEST_CASE("sums of f64 are at least as exact as pairwise ones, along any axes") {
  constexpr double kMost = 2;  // largest error in ulp; a sequential sum would have hundreds
  constexpr std::int64_t kLong = test::kSanitized ? 30'000 : 100'000;
  constexpr std::int64_t kRows = test::kSanitized ? 3000 : 7000, kPlanes = test::kSanitized ? 60 : 150;
  for (auto* make : {tenths, positive, mixed}) {
    if (test::kSanitized && make == positive) continue;
    for (const Shape& shape :
         {Shape{1, 1, 10 * kLong}, Shape{1, 1, 70001}, Shape{3 * kLong, 1, 3}, Shape{3, kLong, 2},
          Shape{kPlanes, 7, 500}, Shape{kRows, 1, 70}, Shape{1, 1, 127}}) {
      CAPTURE(shape.to_string());
      const NDArray x = make(shape);
      CHECK(worst_error(x, sum(x), {false, false, false}) <= kMost);
      CHECK(worst_error(x, sum(x, {0}), {false, true, true}) <= kMost);
      CHECK(worst_error(x, sum(x, {1}), {true, false, true}) <= kMost);
      CHECK(worst_error(x, sum(x, {0, 2}), {false, true, false}) <= kMost);
      CHECK(worst_error(x, sum(x, {1, 2}), {true, false, false}) <= kMost);
      CHECK(worst_error(x, sum(x, {0, 1}), {false, false, true}) <= kMost);
      const double count = static_cast<double>(x.size());
      CHECK(worst_error(x, mean(x) * count, {false, false, false}) <= kMost + 1);
    }
  }
}

TEST_CASE("sums of strided and broadcast f64 are as exact") {
  const NDArray x = positive({test::kSanitized ? 200 : 2000, 3, 500}), turned = x.permuted({2, 1, 0});
  CHECK(worst_error(turned, sum(turned), {false, false, false}) <= 2);
  CHECK(worst_error(turned, sum(turned, {0, 2}), {false, true, false}) <= 2);
  const NDArray strided = positive({1, 1, test::kSanitized ? 210'000 : 600'000}).slice(2, {.step = 3});
  CHECK(worst_error(strided, sum(strided), {false, false, false}) <= 2);
  const NDArray wide = tenths({1, 1, 1}).broadcast_view({100, 50, 70});
  CHECK(worst_error(wide, sum(wide), {false, false, false}) <= 2);
}

TEST_CASE("softmax and cross entropy of long f64 lines are exact") {
  constexpr std::int64_t kLength = test::kSanitized ? 100'000 : 1'000'000;
  NDArray x = tenths({1, kLength});
  set_requires_grad(x);
  CHECK(softmax(x)[0][7].item<double>() == doctest::Approx(1.0 / kLength).epsilon(4 * kUlp));
  CHECK(log_softmax(x)[0][7].item<double>() == doctest::Approx(-std::log(1.0 * kLength)).epsilon(4 * kUlp));
  const NDArray rows = tenths({kLength / 5, 2}), labels = zeros({kLength / 5}, DType::i32);
  CHECK(cross_entropy(rows, labels).item<double>() == doctest::Approx(std::log(2)).epsilon(4 * kUlp));
  const NDArray y = softmax(x, 1);
  backward(y, tenths({1, kLength}));  // with this constant seed the exact gradient is 0
  double most = 0;
  for (const double g : grad(x).to_vector<double>()) most = std::max(most, std::abs(g));
  CHECK(most <= 4 * kUlp * 0.1 / kLength);
}

TEST_CASE("gradients of biases are exact sums of f64") {
  constexpr std::int64_t kSamples = test::kSanitized ? 100'000 : 300'000;
  const NDArray x = ones({kSamples, 1}, DType::f64);
  NDArray weight = zeros({3, 1}, DType::f64), bias = zeros({3}, DType::f64);
  set_requires_grad(bias);
  backward(linear(x, weight, bias), tenths({kSamples, 3}));
  for (const double g : grad(bias).to_vector<double>())
    CHECK(g == doctest::Approx(0.1 * kSamples).epsilon(8 * kUlp));
}

TEST_CASE("avg_pool2d of large windows is exact") {
  for (DType dtype : {DType::f32, DType::f64, DType::f16}) {
    CAPTURE(name_of(dtype));
    const Pool2dOptions whole{.kernel = {224, 224}};
    CHECK(avg_pool2d(ones({1, 2, 224, 224}, dtype), whole).astype(DType::f64).to_vector<double>() ==
          std::vector<double>{1, 1});
  }
  const NDArray x = positive({1, 1, 224, 224});
  const NDArray pooled = avg_pool2d(x, {.kernel = {224, 224}});
  CHECK(worst_error(x.view_as({1, 224, 224}), pooled.view_as({1}) * (224 * 224), {true, false, false}) <= 3);
  for (const std::int64_t kernel : {3, 7, 15, 64}) {
    if (test::kSanitized && kernel > 7) continue;
    const NDArray y =
        avg_pool2d(full({1, 1, 200, 200}, 0.1f), {.kernel = {kernel, kernel}, .stride = {1, 1}});
    for (const float value : y.to_vector<float>()) REQUIRE(value == 0.1f);
  }
}

TEST_CASE("avg_pool2d's gradient of overlapping windows is exact") {
  constexpr std::int64_t kKernel = test::kSanitized ? 10 : 40, kWindows = 200 - kKernel + 1;
  const NDArray seed = full({1, 1, kWindows, kWindows}, 0.1f);
  NDArray x = ones({1, 1, 200, 200});
  set_requires_grad(x);
  backward(avg_pool2d(x, {.kernel = {kKernel, kKernel}, .stride = {1, 1}}), seed);
  const auto gradient = grad(x).to_vector<float>();
  CHECK(gradient[100 * 200 + 100] == 0.1f);  // a pixel in the middle is in kKernel * kKernel windows
  CHECK(gradient[0] == 0.1f / (kKernel * kKernel));
}

}  // namespace heddle
