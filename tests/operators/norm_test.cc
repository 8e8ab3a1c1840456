// Normalisations, compared with the same composed of operators.
#include <array>
#include <cmath>
#include <limits>
#include <message_of.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/random.h>

#include "gradient_check.h"

using namespace heddle;
using heddle::test::message_of;

namespace {

NDArray normal(const Shape& shape, std::uint64_t seed, double mean = 0, double stddev = 1) {
  return Generator(seed).normal(shape, mean, stddev, DType::f64);
}

NDArray composed(const NDArray& x, const Dims& axes, double epsilon, bool centered = true) {
  const NDArray moved = centered ? x - mean(x, axes, true) : x;
  return moved / sqrt(mean(square(moved), axes, true) + epsilon);
}

void check_close(const NDArray& a, const NDArray& b, double tolerance) {
  REQUIRE(a.shape() == b.shape());
  const std::vector<double> x = a.astype(DType::f64).to_vector<double>(),
                            y = b.astype(DType::f64).to_vector<double>();
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(std::abs(x[i] - y[i]) <= tolerance * (1 + std::abs(y[i])));
}

}  // namespace

TEST_CASE("layer_norm and rms_norm are what operators compose") {
  for (const Shape& shape :
       {Shape{5, 7}, Shape{1, 1}, Shape{3, 300}, Shape{2, 3, 5000}, Shape{4}, Shape{0, 3}}) {
    CAPTURE(shape.to_string());
    const NDArray x = normal(shape, 1, 2);
    const Shape last{shape[shape.size() - 1]};
    const NDArray weight = normal(last, 2), bias = normal(last, 3);
    check_close(layer_norm(x, weight, bias), composed(x, {-1}, 1e-5) * weight + bias, 1e-12);
    check_close(layer_norm(x), composed(x, {-1}, 1e-5), 1e-12);
    check_close(rms_norm(x, weight), composed(x, {-1}, 1e-6, false) * weight, 1e-12);
    const NDArray narrow = x.astype(DType::f32);
    check_close(layer_norm(narrow, weight.astype(DType::f32), bias.astype(DType::f32)),
                composed(narrow.astype(DType::f64), {-1}, 1e-5) * weight + bias, 2e-5);
  }
  const NDArray x = normal({2, 3, 4}, 4);
  const NDArray weight = normal({3, 4}, 5), bias = normal({3, 4}, 6);
  check_close(layer_norm(x, weight, bias, 2), composed(x, {1, 2}, 1e-5) * weight + bias, 1e-12);
  check_close(rms_norm(transpose(x)), composed(transpose(x), {-1}, 1e-6, false), 1e-12);
}

TEST_CASE("group_norm and batch_norm are what operators compose") {
  for (const Shape& shape :
       {Shape{3, 6}, Shape{2, 6, 5}, Shape{3, 6, 4, 5}, Shape{1, 6, 70, 70}, Shape{300, 6}}) {
    CAPTURE(shape.to_string());
    const NDArray x = normal(shape, 1, 2);
    Shape channels = Dims::filled(shape.size(), 1);
    channels[1] = 6;
    const NDArray weight = normal({6}, 2), bias = normal({6}, 3);
    const NDArray w = reshape(weight, channels), b = reshape(bias, channels);
    for (const std::int64_t groups : {1, 2, 3, 6}) {
      const NDArray blocks = reshape(x, {shape[0], groups, x.size() / shape[0] / groups});
      check_close(group_norm(x, groups, weight, bias), reshape(composed(blocks, {2}, 1e-5), shape) * w + b,
                  1e-11);
    }
    Dims axes{0};
    for (int i = 2; i < shape.size(); ++i) axes.push_back(i);
    const auto [y, average, variance] = batch_norm(x, weight, bias);
    check_close(y, composed(x, axes, 1e-5) * w + b, 1e-11);
    check_close(average, mean(x, axes), 1e-12);
    check_close(variance, mean(square(x - mean(x, axes, true)), axes), 1e-12);
    check_close(batch_norm_with(x, average, variance, weight, bias), y, 1e-11);
    CHECK_FALSE(requires_grad(average));
  }
}

TEST_CASE("gradients of normalisations agree with finite differences, with and without weights") {
  using In = const std::vector<NDArray>&;
  const NDArray rows = normal({3, 5}, 1), weight = normal({5}, 2), bias = normal({5}, 3);
  testing::check_gradients([](In in) { return layer_norm(in[0], in[1], in[2]); }, {rows, weight, bias});
  testing::check_gradients([](In in) { return layer_norm(in[0], {}, in[1]); }, {rows, bias});
  testing::check_gradients([](In in) { return layer_norm(in[0], in[1], {}, 2); }, {rows, normal({3, 5}, 4)});
  testing::check_gradients([](In in) { return rms_norm(in[0], in[1]); }, {rows, weight});
  testing::check_gradients([](In in) { return rms_norm(in[0]); }, {rows});
  const NDArray images = normal({2, 4, 3}, 5), of_channels = normal({4}, 6), shift = normal({4}, 7);
  testing::check_gradients([](In in) { return group_norm(in[0], 2, in[1], in[2]); },
                           {images, of_channels, shift});
  testing::check_gradients([](In in) { return group_norm(in[0], 4); }, {images});
  testing::check_gradients([](In in) { return batch_norm(in[0], in[1], in[2])[0]; },
                           {images, of_channels, shift});
  testing::check_gradients([](In in) { return batch_norm(in[0])[0]; }, {rows});
  testing::check_gradients([](In in) { return batch_norm_with(in[0], in[1], in[2], in[3], in[4]); },
                           {images, shift, square(of_channels) + 0.5, of_channels, shift});
}

TEST_CASE("gradients of the wide kernels are those of the composition") {
  const auto gradients = [](auto f, const std::vector<NDArray>& inputs) {
    std::vector<NDArray> leaves;
    for (const NDArray& input : inputs) {
      leaves.push_back(input.copy());
      set_requires_grad(leaves.back());
    }
    const NDArray y = f(leaves);
    return grad({y}, leaves, {.seeds = {normal(y.shape(), 9)}});
  };
  const NDArray x = normal({70, 150}, 1, 1), weight = normal({150}, 2), bias = normal({150}, 3);
  using In = const std::vector<NDArray>&;
  const auto ours = gradients([](In in) { return layer_norm(in[0], in[1], in[2]); }, {x, weight, bias});
  const auto theirs =
      gradients([](In in) { return composed(in[0], {-1}, 1e-5) * in[1] + in[2]; }, {x, weight, bias});
  const auto batch = gradients([](In in) { return batch_norm(in[0], in[1], in[2])[0]; }, {x, weight, bias});
  const auto plain =
      gradients([](In in) { return composed(in[0], {0}, 1e-5) * in[1] + in[2]; }, {x, weight, bias});
  for (std::size_t i = 0; i < 3; ++i) {
    check_close(ours[i], theirs[i], 1e-11);
    check_close(batch[i], plain[i], 1e-11);
  }
}

TEST_CASE("large means, constant rows, halves and NaN") {
  const NDArray far = (normal({4, 1000}, 1) + 1e4).astype(DType::f32);
  check_close(layer_norm(far), composed(far.astype(DType::f64), {-1}, 1e-5), 2e-3);
  CHECK(layer_norm(full({2, 3}, 7)).to_vector<float>() == std::vector<float>(6, 0));
  const NDArray half = normal({3, 8}, 2).astype(DType::f16);
  CHECK(layer_norm(half).dtype() == DType::f16);
  check_close(layer_norm(half), composed(half.astype(DType::f64), {-1}, 1e-5), 1e-3);
  CHECK(batch_norm(half)[1].dtype() == DType::f16);
  const NDArray bad = array<double>({1, std::numeric_limits<double>::quiet_NaN(), 2, 3}, {2, 2});
  const std::vector<double> y = layer_norm(bad).to_vector<double>();
  CHECK(std::isnan(y[0]));
  CHECK(y[2] == doctest::Approx(-1).epsilon(1e-4));
}

TEST_CASE("squares that overflow give NaN, not zeros") {
  const NDArray x = array<float>({1e20F, 0, 0, 0, 1, 2, 3, 4}, {2, 4});
  const std::vector<float> rows = layer_norm(x).to_vector<float>();
  for (std::size_t i = 0; i < 4; ++i) CHECK(std::isnan(rows[i]));
  CHECK(rows[4] == doctest::Approx(-1.3416).epsilon(1e-3));
  CHECK(std::isnan(batch_norm(array<float>({1e20F, -1e20F}, {2, 1}))[0].to_vector<float>()[0]));
}

TEST_CASE("arrays without elements, and a mean that the caller changes") {
  for (const Shape& shape : {Shape{2, 4, 0}, Shape{0, 4}, Shape{0, 4, 3}}) {
    CAPTURE(shape.to_string());
    NDArray x = zeros(shape);
    set_requires_grad(x);
    for (const NDArray& y : {group_norm(x, 2, ones({4}), ones({4})), batch_norm(x, ones({4}))[0]}) {
      CHECK(y.shape() == shape);
      CHECK(grad({y}, {x}, {.seeds = {zeros(shape)}})[0].shape() == shape);
    }
  }
  NDArray x = normal({4, 2}, 1);
  set_requires_grad(x);
  const auto [y, average, variance] = batch_norm(x);
  average.assign(average * 0.1);
  CHECK_THROWS_AS(backward(sum(y * y)), Error);
}

TEST_CASE("normalisations refuse what does not fit, at the call") {
  const NDArray x = ones({2, 4});
  const auto why = [](auto f) { return message_of<InvalidArgument>(f); };
  CHECK(why([&] { layer_norm(x, ones({2})); }) == "layer_norm: weight is f32 (2,); want f32 (4,)");
  CHECK(why([&] { layer_norm(x, {}, ones({4}, DType::f64)); }) ==
        "layer_norm: bias is f64 (4,); want f32 (4,)");
  CHECK(why([&] { layer_norm(x, {}, {}, 3); }) ==
        "layer_norm: axes is 3, the array is (2, 4); want 1 to its number of axes");
  CHECK(why([&] { layer_norm(x, {}, {}, 1, -1); }) == "layer_norm: epsilon is -1; want 0 or more");
  CHECK(why([&] { rms_norm(ones({2}, DType::i32)); }) == "rms_norm: dtype i32; wanted a floating one");
  CHECK(why([&] { group_norm(x, 3); }) ==
        "group_norm: groups is 3; want a divisor of the number of channels, 4");
  CHECK(why([&] { batch_norm(ones({4})); }) == "batch_norm: the array is (4,); want (N, C, ...)");
  CHECK(why([&] { batch_norm_with(x, ones({2}), ones({4})); }).find("batch_norm_with") == 0);
}
