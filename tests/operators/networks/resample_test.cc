// Resampling, compared with sums over all elements written from its definition.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <message_of.h>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/random.h>

#include "gradient_check.h"

using namespace heddle;
using heddle::test::message_of;

namespace {

using Doubles = std::vector<double>;
using Mode = Interpolation;
constexpr Mode kModes[] = {Mode::nearest, Mode::nearest_exact, Mode::linear, Mode::cubic, Mode::area};

NDArray normal(const Shape& shape, std::uint64_t seed, DType dtype = DType::f64) {
  return Generator(seed).normal(shape, 0, 1, dtype);
}

double cubic_weight(double distance) {
  constexpr double a = -0.75;
  const double d = std::abs(distance);
  if (d <= 1) return (a + 2) * d * d * d - (a + 3) * d * d + 1;
  return d < 2 ? a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a : 0;
}

// The weights of the inputs of output i along an axis. `scale` 0: by the sizes.
Doubles weights_of(std::int64_t i, std::int64_t in, std::int64_t out, double scale, Interpolation mode,
                   bool corners) {
  Doubles weights(static_cast<std::size_t>(in), 0);
  const auto add = [&](std::int64_t at, double w) {
    weights[static_cast<std::size_t>(std::clamp<std::int64_t>(at, 0, in - 1))] += w;
  };
  const auto position = static_cast<double>(i);
  const double step = scale > 0 ? 1 / scale : static_cast<double>(in) / static_cast<double>(out);
  double place = step * (position + 0.5) - 0.5;
  if (corners) place = out > 1 ? position * static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  if (mode == Mode::area) {
    const std::int64_t begin = i * in / out, end = ((i + 1) * in + out - 1) / out;
    for (std::int64_t k = begin; k < end; ++k) add(k, 1 / static_cast<double>(end - begin));
  } else if (in == out && (mode == Mode::linear || (scale == 0 && mode != Mode::cubic))) {
    add(i, 1);
  } else if (mode == Mode::nearest) {
    add(static_cast<std::int64_t>(std::floor(static_cast<float>(step * position))), 1);
  } else if (mode == Mode::nearest_exact) {
    add(static_cast<std::int64_t>(std::floor(static_cast<float>(std::max(place, 0.0) + 0.5))), 1);
  } else if (mode == Mode::linear) {
    place = std::max(place, 0.0);
    const double low = std::floor(place);
    add(static_cast<std::int64_t>(low), 1 - (place - low));
    add(static_cast<std::int64_t>(low) + 1, place - low);
  } else {
    const double low = std::floor(place);
    for (int k = -1; k <= 2; ++k) add(static_cast<std::int64_t>(low) + k, cubic_weight(place - low - k));
  }
  return weights;
}

// interpolate() of x (N, C, ...) in f64: every output is a sum over all inputs of its plane, axis by axis.
NDArray expected(const NDArray& x, const Shape& sizes, double scale, Interpolation mode, bool corners) {
  NDArray y = x.astype(DType::f64);
  for (int axis = 2; axis < x.ndim(); ++axis) {
    const std::int64_t in = x.shape()[axis], out = sizes[axis - 2];
    Doubles matrix;
    for (std::int64_t i = 0; i < out; ++i)
      for (const double w : weights_of(i, in, out, scale, mode, corners)) matrix.push_back(w);
    y = moveaxis(matmul(moveaxis(y, axis, -1), transpose(array<double>(matrix, {out, in}))), -1, axis);
  }
  return y;
}

void check_near(const NDArray& a, const NDArray& b, double tolerance) {
  REQUIRE(a.shape() == b.shape());
  const Doubles x = a.astype(DType::f64).to_vector<double>(), y = b.to_vector<double>();
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    worst = std::max(worst, std::abs(x[i] - y[i]) / (1 + std::abs(y[i])));
  CHECK(worst <= tolerance);
}

const std::vector<std::pair<Shape, Shape>>& sizes() {
  static const std::vector<std::pair<Shape, Shape>> all{{{2, 3, 7}, {12}},
                                                        {{2, 3, 7}, {7}},
                                                        {{1, 2, 9}, {4}},
                                                        {{3, 1, 1}, {5}},
                                                        {{2, 3, 5, 4}, {10, 8}},
                                                        {{2, 3, 5, 4}, {5, 4}},
                                                        {{1, 2, 9, 7}, {4, 3}},
                                                        {{1, 2, 6, 5}, {3, 11}},
                                                        {{2, 1, 3, 3}, {1, 1}},
                                                        {{0, 3, 2, 2}, {4, 4}},
                                                        {{2, 2, 3, 4, 5}, {6, 8, 10}},
                                                        {{1, 2, 5, 4, 3}, {2, 7, 3}},
                                                        {{1, 3, 40, 50}, {90, 77}}};
  return all;
}

}  // namespace

TEST_CASE("interpolate is what its definition says, in every mode, shape and floating dtype") {
  for (const Interpolation mode : kModes) {
    for (const auto& [shape, out] : sizes()) {
      if (mode == Mode::cubic && out.size() != 2) continue;
      for (const bool corners : {false, true}) {
        if (corners && mode != Mode::linear && mode != Mode::cubic) continue;
        CAPTURE(static_cast<int>(mode));
        CAPTURE(shape.to_string());
        CAPTURE(corners);
        const NDArray x = normal(shape, 1);
        const InterpolateOptions options{.size = out, .mode = mode, .align_corners = corners};
        const NDArray wanted = expected(x, out, 0, mode, corners);
        check_near(interpolate(x, options), wanted, 1e-12);
        check_near(interpolate(x.astype(DType::f32), options), wanted, 2e-5);
        const NDArray half = x.astype(DType::f16);
        CHECK(interpolate(half, options).dtype() == DType::f16);
        check_near(interpolate(half, options), expected(half, out, 0, mode, corners), 2e-3);
        if (x.size() == 0) continue;
        const NDArray turned = swapaxes(swapaxes(x, 1, -1).copy(), 1, -1);  // strided
        CHECK(interpolate(turned, options).to_vector<double>() ==
              interpolate(x, options).to_vector<double>());
      }
    }
  }
}

TEST_CASE("interpolate by a scale keeps the scale, and has the floor of sizes") {
  for (const Interpolation mode : kModes) {
    for (const double scale : {2.0, 1.7, 0.6, 1.0, 1.05}) {
      CAPTURE(static_cast<int>(mode));
      CAPTURE(scale);
      const NDArray x = normal({2, 2, 7, 5}, 2);
      const Shape out{static_cast<std::int64_t>(7 * scale), static_cast<std::int64_t>(5 * scale)};
      check_near(interpolate(x, {.scale = {scale}, .mode = mode}), expected(x, out, scale, mode, false),
                 1e-12);
      check_near(interpolate(x, {.scale = {scale, scale}, .mode = mode}),
                 expected(x, out, scale, mode, false), 1e-12);
    }
  }
  CHECK(interpolate(ones({1, 1, 4, 6}), {.scale = {0.5, 1.5}}).shape() == Shape{1, 1, 2, 9});
}

TEST_CASE("the nearest modes copy elements of every dtype") {
  const NDArray x = arange(0, 12).view_as({1, 1, 3, 4});
  const std::vector<double> wanted = expected(x, {5, 9}, 0, Mode::nearest, false).to_vector<double>();
  for (const DType dtype : {DType::u8, DType::i32, DType::i64, DType::bf16, DType::f64}) {
    const NDArray y = interpolate(x.astype(dtype), {.size = {5, 9}});
    CHECK(y.dtype() == dtype);
    CHECK(y.astype(DType::f64).to_vector<double>() == wanted);
  }
  CHECK(interpolate(x > 5, {.size = 2}).dtype() == DType::boolean);
}

TEST_CASE("gradients of resampling, first and second, agree with difference quotients") {
  using In = const std::vector<NDArray>&;
  for (const Interpolation mode : kModes) {
    CAPTURE(static_cast<int>(mode));
    const NDArray image = normal({1, 2, 3, 4}, 3), signal = normal({2, 1, 5}, 4),
                  volume = normal({1, 1, 2, 3, 2}, 5);
    for (const Shape& out : {Shape{5, 7}, Shape{2, 2}, Shape{3, 9}})
      testing::check_gradients([&](In in) { return sin(interpolate(in[0], {.size = out, .mode = mode})); },
                               {image});
    if (mode == Mode::cubic) continue;
    testing::check_gradients([&](In in) { return sin(interpolate(in[0], {.scale = {1.7}, .mode = mode})); },
                             {signal});
    testing::check_gradients(
        [&](In in) {
          return sin(interpolate(in[0], {.size = {3, 2, 5}, .mode = mode}));
        },
        {volume});
  }
  testing::check_gradients(
      [](In in) {
        return sin(interpolate(in[0], {.size = {5, 7}, .mode = Mode::cubic, .align_corners = true}));
      },
      {normal({1, 1, 3, 4}, 6)});
  NDArray half = normal({1, 1, 4}, 7, DType::f16);
  set_requires_grad(half);
  backward(sum(interpolate(half, {.scale = {2}, .mode = Mode::linear})));
  CHECK(grad(half).dtype() == DType::f16);
  CHECK(grad(half).astype(DType::f32).to_vector<float>() == std::vector<float>{2, 2, 2, 2});
}

TEST_CASE("interpolate and its gradient are the same bits with any number of workers") {
  for (const Interpolation mode : {Mode::nearest, Mode::linear, Mode::cubic, Mode::area}) {
    const auto run = [&](int workers) {
      Engine engine({.workers = workers});
      const EngineScope scope(engine);
      NDArray x = normal({2, 3, 61, 83}, 8, DType::f32);
      set_requires_grad(x);
      const NDArray y = interpolate(x, {.size = {150, 47}, .mode = mode});
      backward(y, normal(y.shape(), 9, DType::f32));
      return std::pair(y.to_vector<float>(), grad(x).to_vector<float>());
    };
    const auto one = run(1);
    CHECK(one == run(2));
    CHECK(one == run(4));
  }
}

TEST_CASE("pixel_shuffle fills blocks of pixels from channels, and pixel_unshuffle is its inverse") {
  const NDArray x = arange(0, 16).view_as({1, 4, 2, 2});
  CHECK(pixel_shuffle(x, 2).to_vector<float>() ==
        std::vector<float>{0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15});
  for (const Shape& shape : {Shape{2, 18, 3, 4}, Shape{9, 2, 5}, Shape{2, 3, 9, 1, 1}, Shape{0, 9, 2, 2}}) {
    const NDArray y = normal(shape, 10, DType::f32), shuffled = pixel_shuffle(y, 3);
    CHECK(shuffled.shape()[shape.size() - 1] == 3 * shape[shape.size() - 1]);
    const NDArray back = pixel_unshuffle(shuffled, 3);
    CHECK(back.shape() == shape);
    CHECK(back.to_vector<float>() == y.to_vector<float>());
  }
  using In = const std::vector<NDArray>&;
  testing::check_gradients([](In in) { return sin(pixel_shuffle(in[0], 2)); }, {normal({1, 4, 2, 1}, 11)});
  testing::check_gradients([](In in) { return sin(pixel_unshuffle(in[0], 2)); }, {normal({1, 1, 2, 4}, 12)});
}

TEST_CASE("resampling refuses what does not fit, at the call") {
  const NDArray x = ones({1, 2, 3, 4});
  const auto why = [](auto f) { return message_of<InvalidArgument>(f); };
  CHECK(why([&] {
          interpolate(ones({2, 3}), {.size = 2});
        }) == "interpolate: the array is (2, 3); want (N, C, ...) with one to three spatial axes");
  CHECK(why([&] { interpolate(x, {}); }) == "interpolate: want either size or scale");
  CHECK(why([&] {
          interpolate(x, {.size = {1, 2, 3}});
        }) == "interpolate: size has 3 numbers for 2 spatial axes");
  CHECK(why([&] { interpolate(x, {.size = 0}); }) == "interpolate: size is (0,); want 1 or more");
  CHECK(why([&] { interpolate(x, {.scale = {0.1}}); }) ==
        "interpolate: scale is 0.1 for 3 elements; want a number that leaves 1 or more");
  CHECK(why([&] { interpolate(x, {.scale = {std::nan("")}}); }).find("interpolate: scale is nan") == 0);
  CHECK(why([&] {
          interpolate(ones({1, 1, 3}), {.size = 4, .mode = Mode::cubic});
        }) == "interpolate: mode is cubic, the array is (1, 1, 3); want two spatial axes");
  CHECK(why([&] { interpolate(x, {.size = 4, .align_corners = true}); }) ==
        "interpolate: align_corners with mode nearest; want linear or cubic");
  CHECK(why([&] { interpolate(x.astype(DType::u8), {.size = 4, .mode = Mode::linear}); }) ==
        "interpolate: dtype u8; wanted a floating one");
  CHECK(why([&] {
          interpolate(zeros({1, 2, 0}), {.size = 4});
        }) == "interpolate: the array is (1, 2, 0); want spatial axes with elements");
  CHECK(
      why([&] { pixel_shuffle(x, 2); }) ==
      "pixel_shuffle: the array is (1, 2, 3, 4); want a number of channels that factor squared, 4, divides");
  CHECK(why([&] { pixel_unshuffle(x, 2); }) ==
        "pixel_unshuffle: the array is (1, 2, 3, 4); want a height and a width that factor, 2, divides");
  CHECK(why([&] { pixel_shuffle(x, 0); }) == "pixel_shuffle: factor is 0; want 1 to 2147483647");
  CHECK(why([&] { pixel_unshuffle(x, std::int64_t{1} << 40); }) ==
        "pixel_unshuffle: factor is 1099511627776; want 1 to 2147483647");
  CHECK(why([&] { pixel_shuffle(ones({4}), 2); }) == "pixel_shuffle: the array is (4,); want (..., C, H, W)");
}
