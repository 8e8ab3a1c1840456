#include <cmath>
#include <gradient_check.h>
#include <limits>
#include <message_of.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/operator_registry.h>
#include <heddle/ops.h>
#include <heddle/random.h>

namespace heddle {
namespace {

const std::vector<Pool2dOptions> kOptions = {
    {},
    {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}},
    {.kernel = {2, 3}, .stride = {1, 2}, .padding = {1, 0}},
    {.kernel = {3, 2}},
    {.kernel = {3, 3}, .stride = {3, 3}, .padding = {1, 1}, .count_include_pad = false},
};

std::vector<float> max_gradient(const std::vector<float>& values, Shape shape, const Pool2dOptions& options) {
  NDArray x = array<float>(values, shape);
  set_requires_grad(x);
  backward(sum(max_pool2d(x, options)));
  return grad(x).to_vector<float>();
}

}  // namespace

TEST_CASE("pooling of small numbers") {
  const NDArray x = array<float>({1, 5, 2, 3, 4, 0, 7, 6, 9, 8, 1, 1}, {1, 1, 3, 4});
  CHECK(max_pool2d(x).to_vector<float>() == std::vector<float>{5, 7});
  CHECK(avg_pool2d(x).to_vector<float>() == std::vector<float>{2.5f, 4.5f});
  const Pool2dOptions padded{.kernel = {2, 2}, .padding = {1, 1}};
  CHECK(max_pool2d(x, padded).to_vector<float>() == std::vector<float>{1, 5, 3, 9, 8, 6});
  CHECK(avg_pool2d(x, padded).to_vector<float>() ==
        std::vector<float>{0.25f, 1.75f, 0.75f, 3.25f, 4.0f, 1.75f});
  const Pool2dOptions inside{.kernel = {2, 2}, .padding = {1, 1}, .count_include_pad = false};
  CHECK(avg_pool2d(x, inside).to_vector<float>() == std::vector<float>{1, 3.5f, 3, 6.5f, 4, 3.5f});
}

TEST_CASE("pooling's gradients agree with finite differences") {
  for (const Pool2dOptions& options : kOptions) {
    for (const Shape& shape : {Shape{2, 2, 6, 5}, Shape{1, 3, 7, 7}}) {
      const NDArray x = Generator(3).uniform(shape, -9, 9, DType::f64);
      testing::check_gradients([&](const std::vector<NDArray>& in) { return max_pool2d(in[0], options); },
                               {x});
      testing::check_gradients([&](const std::vector<NDArray>& in) { return avg_pool2d(in[0], options); },
                               {x});
    }
  }
}

TEST_CASE("max_pool2d's two ways agree, in value and in gradient") {
  // A 2 x 2 window of f32 without padding has a specialised implementation. f64 and windows with padding use
  // the general implementation.
  const Shape shape{3, 4, 9, 11};
  NDArray x = Generator(4).integers(shape, 0, 4).astype(DType::f32);  // a picture with many ties
  set_requires_grad(x);
  const NDArray fast = max_pool2d(x);
  backward(fast, Generator(5).uniform(fast.shape()));
  const std::vector<float> fast_gradient = grad(x).to_vector<float>();
  NDArray wide = x.detach().astype(DType::f64);
  set_requires_grad(wide);
  const NDArray slow = max_pool2d(wide, {.kernel = {2, 2}, .stride = {2, 2}});
  CHECK(fast.astype(DType::f64).to_vector<double>() == slow.to_vector<double>());
  NDArray padded_by_hand = full({3, 4, 11, 13}, -1.0);
  padded_by_hand.slice(2, {1, 10}).slice(3, {1, 12}).assign(x.detach());
  set_requires_grad(padded_by_hand);
  NDArray windows = max_pool2d(x.detach(), {.kernel = {2, 2}, .stride = {2, 2}, .padding = {1, 1}});
  const NDArray by_hand = max_pool2d(padded_by_hand.detach(), {.kernel = {2, 2}, .stride = {2, 2}});
  CHECK(windows.to_vector<float>() == by_hand.slice(2, {0, windows.shape()[2]}).to_vector<float>());
  double total = 0;
  for (const float g : fast_gradient) total += static_cast<double>(g);
  CHECK(total == doctest::Approx(sum(Generator(5).uniform(fast.shape())).item<float>()));
}

TEST_CASE("max_pool2d's gradient goes to the first of equals and NaN wins") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(max_gradient({3, 3, 3, 3}, {1, 1, 2, 2}, {}) == std::vector<float>{1, 0, 0, 0});
  CHECK(max_gradient({1, nan, 3, nan}, {1, 1, 2, 2}, {}) == std::vector<float>{0, 1, 0, 0});
  CHECK(max_gradient({1, nan, 3, nan}, {1, 1, 1, 4}, {.kernel = {1, 4}}) == std::vector<float>{0, 1, 0, 0});
  CHECK(std::isnan(max_pool2d(array<float>({1, nan, 3, 4}, {1, 1, 2, 2})).item<float>()));
  // The last row and the last column are in no window, so their gradient is 0.
  CHECK(max_gradient({1, 2, 9, 3, 4, 9, 9, 9, 9}, {1, 1, 3, 3}, {}) ==
        std::vector<float>{0, 0, 0, 0, 1, 0, 0, 0, 0});
}

TEST_CASE("windows of more than 256 places") {
  NDArray x = arange(0, 400, 1, DType::f64).view_as({1, 1, 20, 20});
  set_requires_grad(x);
  const NDArray y = max_pool2d(x, {.kernel = {20, 20}});
  CHECK(y.item<double>() == 399);
  backward(y);
  std::vector<double> expected(400, 0.0);
  expected[399] = 1;
  CHECK(grad(x).to_vector<double>() == expected);
}

TEST_CASE("pooling an empty batch") {
  NDArray x = zeros({0, 3, 4, 4});
  set_requires_grad(x);
  const NDArray y = max_pool2d(x);
  CHECK(y.shape() == Shape{0, 3, 2, 2});
  backward(y, zeros({0, 3, 2, 2}));
  CHECK(grad(x).shape() == Shape{0, 3, 4, 4});
  CHECK(avg_pool2d(x).shape() == Shape{0, 3, 2, 2});
}

TEST_CASE("pooling refuses what it cannot do, at the call") {
  const NDArray x = zeros({1, 1, 4, 4});
  CHECK_THROWS_WITH_AS(max_pool2d(zeros({4, 4})), "max_pool2d: x (4, 4); wanted (N, C, H, W)",
                       InvalidArgument);
  CHECK_THROWS_WITH_AS(avg_pool2d(x, {.kernel = {5, 5}}),
                       "avg_pool2d: a window of 5 is larger than the padded input 4", InvalidArgument);
  CHECK_THROWS_WITH_AS(
      max_pool2d(x, {.kernel = {2, 2}, .padding = {2, 0}}),
      "max_pool2d: kernel 2, stride 2, padding 2; wanted at least 1, at least 1, and 0 to half the kernel",
      InvalidArgument);
  CHECK_THROWS_WITH_AS(max_pool2d(zeros({1, 1, 4, 4}, DType::i64)),
                       "max_pool2d: dtype i64; wanted a floating one", InvalidArgument);
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  CHECK_THROWS_AS(max_pool2d(zeros({1, 1, 4, 4}), {.kernel = {kMost, 1}, .padding = {kMost / 2, 0}}),
                  InvalidArgument);
}

TEST_CASE("a stride of 0 is refused by name, where None is the window's size") {
  const NDArray x = ones({1, 1, 4, 6});
  for (const char* op : {"max_pool2d", "avg_pool2d"}) {
    const auto pooled = [&](const Dims& stride) {
      return test::message_of<InvalidArgument>([&] { call_operator(op, {x, 2}, {{"stride", stride}}); });
    };
    CHECK(pooled({0, 0}).starts_with(std::string(op) + ": kernel 2, stride 0"));
    CHECK(pooled({2, 0}).starts_with(std::string(op) + ": kernel 2, stride 0"));
  }
}

}  // namespace heddle
