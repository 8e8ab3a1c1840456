// conv1d and conv_transpose2d, compared with loops.
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

// Each element of x adds its kernel to a window of the result.
std::vector<double> stamped(const NDArray& x, const NDArray& weight, const ConvTranspose2dOptions& o,
                            const Shape& shape) {
  const std::vector<double> from = x.to_vector<double>(), w = weight.to_vector<double>();
  std::vector<double> y(static_cast<std::size_t>(element_count(shape)), 0);
  const std::int64_t in = x.shape()[1], h = x.shape()[2], wd = x.shape()[3], per = weight.shape()[1],
                     kh = weight.shape()[2], kw = weight.shape()[3], part = in / o.groups;
  for (std::int64_t n = 0; n < x.shape()[0]; ++n)
    for (std::int64_t c = 0; c < in; ++c)
      for (std::int64_t i = 0; i < h; ++i)
        for (std::int64_t j = 0; j < wd; ++j)
          for (std::int64_t k = 0; k < per; ++k)
            for (std::int64_t a = 0; a < kh; ++a)
              for (std::int64_t b = 0; b < kw; ++b) {
                const std::int64_t row = i * o.stride[0] - o.padding[0] + a * o.dilation[0],
                                   column = j * o.stride[1] - o.padding[1] + b * o.dilation[1],
                                   channel = c / part * per + k;
                if (row < 0 || row >= shape[2] || column < 0 || column >= shape[3]) continue;
                y[static_cast<std::size_t>(((n * shape[1] + channel) * shape[2] + row) * shape[3] +
                                           column)] +=
                    from[static_cast<std::size_t>(((n * in + c) * h + i) * wd + j)] *
                    w[static_cast<std::size_t>(((c * per + k) * kh + a) * kw + b)];
              }
  return y;
}

}  // namespace

TEST_CASE("conv_transpose2d adds a kernel for each element of its input") {
  const std::vector<ConvTranspose2dOptions> all{
      {},
      {.stride = {2, 3}},
      {.stride = {2, 2}, .padding = {1, 2}, .output_padding = {1, 0}},
      {.stride = {3, 1}, .padding = {0, 1}, .output_padding = {2, 0}, .dilation = {1, 2}},
      {.stride = {2, 2}, .groups = 2}};
  for (const ConvTranspose2dOptions& options : all) {
    const NDArray x = normal({2, 4, 3, 5}, 1), weight = normal({4, 3, 3, 4}, 2);
    const NDArray y = conv_transpose2d(x, weight, {}, options);
    Shape shape{2, 3 * options.groups};
    for (int axis = 0; axis < 2; ++axis) {
      const auto at = static_cast<std::size_t>(axis);
      shape.push_back((x.shape()[axis + 2] - 1) * options.stride[at] - 2 * options.padding[at] +
                      options.dilation[at] * (weight.shape()[axis + 2] - 1) + options.output_padding[at] + 1);
    }
    REQUIRE(y.shape() == shape);
    const std::vector<double> values = y.to_vector<double>(), expected = stamped(x, weight, options, shape);
    for (std::size_t i = 0; i < values.size(); ++i)
      CHECK(values[i] == doctest::Approx(expected[i]).epsilon(1e-10));
    const std::vector<float> narrow =
        conv_transpose2d(x.astype(DType::f32), weight.astype(DType::f32), {}, options).to_vector<float>();
    for (std::size_t i = 0; i < values.size(); ++i)
      CHECK(static_cast<double>(narrow[i]) == doctest::Approx(expected[i]).epsilon(1e-4));
  }
  const NDArray bias = array<double>({1, 2});
  const NDArray plain =
      conv_transpose2d(ones({1, 1, 1, 1}, DType::f64), zeros({1, 2, 1, 1}, DType::f64), bias);
  CHECK(plain.to_vector<double>() == std::vector<double>{1, 2});
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
