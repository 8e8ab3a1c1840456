#include <algorithm>
#include <arrays.h>
#include <cmath>
#include <gradient_check.h>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>

namespace heddle {

using test::check_close;
using test::uniform;

namespace {

struct Sample {
  Shape x, weight;
  Conv2dOptions options;
};

// Convolutions with strides that do not divide the size, odd sizes, groups, depthwise and 1 x 1 kernels,
// dilation, and kernels wider than high.
const std::vector<Sample> kSamples = {
    {{2, 3, 5, 5}, {4, 3, 3, 3}, {.padding = {1, 1}}},
    {{3, 2, 6, 5}, {3, 2, 2, 3}, {.stride = {2, 1}}},
    {{1, 4, 5, 6}, {6, 2, 3, 3}, {.stride = {2, 2}, .padding = {1, 2}, .groups = 2}},
    {{2, 3, 4, 4}, {3, 1, 3, 3}, {.padding = {1, 1}, .groups = 3}},
    {{2, 5, 3, 3}, {2, 5, 1, 1}, {}},
    {{2, 2, 7, 6}, {3, 2, 3, 2}, {.padding = {2, 1}, .dilation = {2, 3}}},
    {{1, 1, 1, 1}, {1, 1, 3, 3}, {.padding = {1, 1}}},
    {{2, 3, 5, 4}, {4, 3, 3, 3}, {.padding = {1, 1}, .relu = true}},
};

struct Results {
  NDArray y, x, weight, bias;
};

// The result of a convolution, and the gradients of x, weight and bias for a fixed gradient of the result.
Results run(const Sample& sample, DType dtype) {
  const auto leaf = [&](const Shape& shape, std::uint64_t seed) {
    NDArray array = uniform(shape, DType::f32, seed).astype(dtype);
    set_requires_grad(array);
    return array;
  };
  const NDArray x = leaf(sample.x, 1), weight = leaf(sample.weight, 2), bias = leaf({sample.weight[0]}, 3);
  const NDArray y = conv2d(x, weight, bias, sample.options);
  backward(y, uniform(y.shape(), DType::f32, 4).astype(dtype));
  return {y.detach(), grad(x), grad(weight), grad(bias)};
}

std::string refusal(const NDArray& x, const NDArray& weight, const NDArray& bias = {},
                    const Conv2dOptions& o = {}) {
  try {
    conv2d(x, weight, bias, o);
  } catch (const InvalidArgument& error) {
    return error.message();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("conv2d of small numbers") {
  const NDArray x = arange(0, 9).view_as({1, 1, 3, 3});
  const NDArray weight = array<float>({1, 2, 3, 4}, {1, 1, 2, 2});
  const NDArray bias = array<float>({10}, {1});
  CHECK(conv2d(x, weight).to_vector<float>() == std::vector<float>{27, 37, 57, 67});
  CHECK(conv2d(x, weight, bias).to_vector<float>() == std::vector<float>{37, 47, 67, 77});
  CHECK(conv2d(x, weight, {}, {.stride = {2, 2}}).to_vector<float>() == std::vector<float>{27});
  CHECK(conv2d(x, weight, array<float>({-40}, {1}), {.relu = true}).to_vector<float>() ==
        std::vector<float>{0, 0, 17, 27});
}

TEST_CASE("conv2d's gradients agree with finite differences") {
  for (const Sample& sample : kSamples) {
    CAPTURE(sample.weight.to_string());
    const std::vector<NDArray> inputs{uniform(sample.x, DType::f64, 5), uniform(sample.weight, DType::f64, 6),
                                      uniform({sample.weight[0]}, DType::f64, 7)};
    testing::check_gradients(
        [&](const std::vector<NDArray>& in) { return conv2d(in[0], in[1], in[2], sample.options); }, inputs);
    testing::check_gradients(
        [&](const std::vector<NDArray>& in) { return conv2d(in[0], in[1], {}, sample.options); },
        {inputs[0], inputs[1]});
  }
}

TEST_CASE("conv2d in f32 agrees with f64") {
  std::vector<Sample> samples = kSamples;
  samples.push_back({{37, 1, 28, 28}, {32, 1, 3, 3}, {.padding = {1, 1}, .relu = true}});
  samples.push_back({{19, 32, 14, 14}, {64, 32, 3, 3}, {.padding = {1, 1}, .relu = true}});
  samples.push_back({{5, 3, 33, 31}, {17, 3, 5, 5}, {.stride = {3, 2}, .padding = {2, 2}}});
  samples.push_back({{3, 24, 15, 15}, {24, 1, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}, .groups = 24}});
  for (const Sample& sample : samples) {
    CAPTURE(sample.x.to_string());
    CAPTURE(sample.weight.to_string());
    const Results single = run(sample, DType::f32), wide = run(sample, DType::f64);
    check_close(single.y, wide.y, 1e-4);
    check_close(single.x, wide.x, 1e-4);
    check_close(single.weight, wide.weight, 1e-3);
    check_close(single.bias, wide.bias, 1e-3);
  }
}

TEST_CASE("NaN goes through conv2d's relu, forward and backward") {
  // Few channels, many channels and depthwise convolutions: each uses another implementation.
  const std::vector<Shape> weights = {{5, 3, 3, 3}, {16, 16, 3, 3}, {32, 1, 3, 3}};
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Shape& shape : weights) {
      CAPTURE(shape.to_string());
      NDArray x = full({2, shape[1], 8, 8}, -1, dtype), weight = ones(shape, dtype);
      x[0].fill(std::nan(""));
      set_requires_grad(x);
      const NDArray y = conv2d(x, weight, {}, {.relu = true});
      backward(y, ones(y.shape(), dtype));
      const auto values = y.astype(DType::f64).to_vector<double>();
      const auto gradients = grad(x).astype(DType::f64).to_vector<double>();
      const auto half = static_cast<std::ptrdiff_t>(values.size() / 2);
      CHECK(std::all_of(values.begin(), values.begin() + half, [](double v) { return std::isnan(v); }));
      CHECK(std::all_of(values.begin() + half, values.end(), [](double v) { return v == 0; }));
      // Each of the output channels passes the gradient 1 back to the pixel, since relu counts NaN as active.
      CHECK(gradients[0] == shape[0]);
      CHECK(gradients.back() == 0);
    }
  }
}

TEST_CASE("conv2d of an empty batch has zero weight gradients") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Results results = run({{0, 2, 5, 5}, {3, 2, 3, 3}, {}}, dtype);
    CHECK(results.y.shape() == Shape{0, 3, 3, 3});
    CHECK(results.x.shape() == Shape{0, 2, 5, 5});
    CHECK(results.weight.astype(DType::f64).to_vector<double>() == std::vector<double>(54, 0.0));
    CHECK(results.bias.astype(DType::f64).to_vector<double>() == std::vector<double>(3, 0.0));
  }
}

TEST_CASE("conv2d takes strided arrays") {
  const NDArray x = uniform({2, 6, 7, 3}, DType::f32, 8), weight = uniform({3, 3, 3, 4}, DType::f32, 9);
  const NDArray strided = conv2d(x.permuted({0, 3, 1, 2}), weight.permuted({3, 2, 0, 1}));
  const NDArray plain = conv2d(x.permuted({0, 3, 1, 2}).copy(), weight.permuted({3, 2, 0, 1}).copy());
  CHECK(strided.to_vector<float>() == plain.to_vector<float>());
}

TEST_CASE("conv2d computes only the gradients that are needed") {
  const NDArray x = uniform({2, 1, 4, 4}, DType::f32, 1);
  NDArray weight = uniform({2, 1, 3, 3}, DType::f32, 2), bias = zeros({2});
  set_requires_grad(bias);
  backward(sum(conv2d(x, weight, bias)));
  CHECK(grad(bias).to_vector<float>() == std::vector<float>{8, 8});
  CHECK_FALSE(grad(x).defined());
  CHECK_FALSE(grad(weight).defined());
}

TEST_CASE("conv2d refuses what it cannot do, at the call") {
  const NDArray x = zeros({1, 4, 5, 5}), weight = zeros({6, 4, 3, 3});
  CHECK(refusal(zeros({4, 5, 5}), weight) ==
        "conv2d: x (4, 5, 5), weight (6, 4, 3, 3); wanted (N, C, H, W) and (O, C / groups, kh, kw)");
  CHECK(refusal(x, zeros({6, 3, 3, 3})) ==
        "conv2d: x (1, 4, 5, 5), weight (6, 3, 3, 3), groups 1; wanted a weight of 4 channels");
  CHECK(refusal(x, weight, {}, {.groups = 4}) == "conv2d: 4 groups do not divide 4 channels and 6 outputs");
  CHECK(refusal(x, weight, zeros({5})) == "conv2d: bias (5,); wanted (6,)");
  CHECK(refusal(x, weight, {}, {.stride = {0, 1}}) ==
        "conv2d: stride 0, padding 0, dilation 1; wanted at least 1, 0 and 1");
  CHECK(refusal(x, weight, {}, {.dilation = {3, 1}}) ==
        "conv2d: the kernel spans 7 and the padded input only 5 rows");
  CHECK(refusal(zeros({1, 4, 5, 5}, DType::i32), zeros({6, 4, 3, 3}, DType::i32)) ==
        "conv2d: dtype i32; wanted a floating one");
  CHECK(refusal(x, zeros({6, 4, 3, 3}, DType::f64)) ==
        "conv2d: x is f32 and weight f64; wanted one dtype for x, weight and bias");
  CHECK(refusal(NDArray(), weight) ==
        "conv2d: an array is undefined: made without a shape, moved from, or a gradient before backward()");
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const NDArray one = zeros({1, 1, 5, 5}), spot = zeros({1, 1, 2, 2});
  CHECK_THROWS_AS(conv2d(one, spot, {}, {.padding = {kMost, kMost}}), InvalidArgument);
  CHECK_THROWS_AS(conv2d(one, spot, {}, {.padding = {kMost / 2, 0}}), InvalidArgument);
  CHECK_THROWS_AS(conv2d(one, spot, {}, {.padding = "same", .dilation = kMost}), InvalidArgument);
  CHECK_THROWS_AS(conv2d(one, spot, {}, {.dilation = {1, kMost}}), InvalidArgument);
}

}  // namespace heddle
