// conv1d and conv_transpose2d of small arrays; conv_random_test.cc compares them with loops.
#include <message_of.h>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/random.h>

#include "gradient_check.h"

using namespace heddle;
using heddle::test::message_of;

namespace {

using In = const std::vector<NDArray>&;

NDArray normal(const Shape& shape, std::uint64_t seed) {
  return Generator(seed).normal(shape, 0, 1, DType::f64);
}

}  // namespace

TEST_CASE("conv_transpose2d of one element is its kernel, plus the bias") {
  const NDArray bias = array<double>({1, 2}), weight = array<double>({3, 4}, {1, 2, 1, 1});
  const NDArray y = conv_transpose2d(full({1, 1, 1, 1}, 10, DType::f64), weight, bias);
  CHECK(y.to_vector<double>() == std::vector<double>{31, 42});
  CHECK(conv_transpose2d(ones({0, 1, 2, 2}, DType::f64), weight, bias).shape() == Shape{0, 2, 2, 2});
}

TEST_CASE("conv1d is conv2d of one row") {
  const NDArray x = normal({2, 4, 9}, 1), weight = normal({6, 2, 3}, 2), bias = normal({6}, 3);
  const NDArray y =
      conv1d(x, weight, bias, {.stride = 2, .padding = 1, .dilation = 2, .groups = 2, .relu = true});
  const NDArray wide =
      conv2d(reshape(x, {2, 4, 1, 9}), reshape(weight, {6, 2, 1, 3}), bias,
             {.stride = {1, 2}, .padding = {0, 1}, .dilation = {1, 2}, .groups = 2, .relu = true});
  CHECK(y.shape() == Shape{2, 6, 4});
  CHECK(y.to_vector<double>() == wide.to_vector<double>());
}

TEST_CASE("gradients of conv1d and conv_transpose2d agree with finite differences") {
  testing::check_gradients([](In in) { return conv1d(in[0], in[1], in[2], {.padding = 1}); },
                           {normal({1, 2, 4}, 1), normal({3, 2, 3}, 2), normal({3}, 3)});
  testing::check_gradients(
      [](In in) {
        return conv_transpose2d(in[0], in[1], in[2],
                                {.stride = {2, 1}, .padding = {1, 0}, .output_padding = {1, 0}});
      },
      {normal({1, 2, 2, 3}, 1), normal({2, 2, 3, 2}, 2), normal({2}, 3)});
}

TEST_CASE("conv1d and conv_transpose2d refuse what does not fit") {
  const NDArray x = ones({1, 2, 3, 3}), weight = ones({2, 1, 2, 2});
  const auto why = [](auto f) { return message_of<InvalidArgument>(f); };
  CHECK(why([&] { conv1d(x, weight); }) ==
        "conv1d: x (1, 2, 3, 3), weight (2, 1, 2, 2); wanted (N, C, L) and (O, C / groups, k)");
  CHECK(why([&] { conv1d(ones({1, 2, 3}), ones({1, 3, 2})); }).starts_with("conv1d: "));
  CHECK(why([&] {
          conv_transpose2d(x, ones({3, 1, 2, 2}));
        }).starts_with("conv_transpose2d: x (1, 2, 3, 3), weight (3, 1, 2, 2)"));
  CHECK(why([&] {
          conv_transpose2d(x, weight, {}, {.output_padding = {1, 0}});
        }).find("output_padding 1") != std::string::npos);
  CHECK(why([&] {
          conv_transpose2d(x, weight, {}, {.padding = {2, 0}});
        }).find("padding") != std::string::npos);
  CHECK(why([&] { conv_transpose2d(x, weight, ones({3})); }) == "conv_transpose2d: bias (3,); wanted (1,)");
  CHECK(why([&] {
          conv_transpose2d(x, weight, {}, {.stride = {std::int64_t{1} << 62, 1}});
        }).find("beyond 64 bits") != std::string::npos);
}
