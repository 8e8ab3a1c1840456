// grid_sample, compared with sums over neighbours written from its definition, one output at a time.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
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

using Mode = Interpolation;
using Doubles = std::vector<double>;
using In = const std::vector<NDArray>&;
constexpr GridPadding kPaddings[] = {GridPadding::zeros, GridPadding::border, GridPadding::reflection};

NDArray uniform(const Shape& shape, std::uint64_t seed, double low = -1, double high = 1,
                DType dtype = DType::f64) {
  return Generator(seed).uniform(shape, low, high, dtype);
}

// The place by mirrors at both ends, one reflection after the other.
double mirrored(double at, std::int64_t size, bool corners) {
  const double low = corners ? 0 : -0.5, high = static_cast<double>(size) - (corners ? 1 : 0.5);
  if (low == high) return 0;
  while (at < low || at > high) at = at < low ? 2 * low - at : 2 * high - at;
  return std::clamp(at, 0.0, static_cast<double>(size - 1));
}
double placed(double at, std::int64_t size, GridPadding padding, bool corners) {
  if (padding == GridPadding::border) return std::clamp(at, 0.0, static_cast<double>(size - 1));
  return padding == GridPadding::reflection ? mirrored(at, size, corners) : at;
}
double cubic_weight(double distance) {
  constexpr double a = -0.75;
  const double d = std::abs(distance);
  if (d <= 1) return (a + 2) * d * d * d - (a + 3) * d * d + 1;
  return d < 2 ? a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a : 0;
}

// A weight for each element of an axis.
Doubles weights_at(double coordinate, std::int64_t size, const GridSampleOptions& o) {
  const auto n = static_cast<double>(size);
  double at = o.align_corners ? (coordinate + 1) / 2 * (n - 1) : ((coordinate + 1) * n - 1) / 2;
  Doubles weights(static_cast<std::size_t>(size), 0);
  const auto add = [&](double index, double weight) {
    if (index >= 0 && index < n) weights[static_cast<std::size_t>(index)] += weight;
  };
  if (o.mode == Mode::cubic) {
    for (int k = -1; k <= 2; ++k) {
      const double tap = std::floor(at) + k;
      add(placed(tap, size, o.padding, o.align_corners), cubic_weight(at - tap));
    }
    return weights;
  }
  at = placed(at, size, o.padding, o.align_corners);
  if (o.mode == Mode::nearest) {
    add(std::nearbyint(at), 1);
  } else {
    add(std::floor(at), 1 - (at - std::floor(at)));
    add(std::floor(at) + 1, at - std::floor(at));
  }
  return weights;
}

// Of x (N, C, in...) and grid (N, P, axes) in f64: (N, C, P).
Doubles expected(const NDArray& x, const NDArray& grid, const GridSampleOptions& o) {
  const int axes = x.ndim() - 2;
  const Doubles image = x.to_vector<double>(), places = grid.to_vector<double>();
  const std::int64_t batch = x.shape()[0], channels = x.shape()[1], depth = axes == 3 ? x.shape()[2] : 1,
                     height = x.shape()[axes], width = x.shape()[axes + 1], count = grid.shape()[1];
  Doubles y;
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t i = 0; i < count; ++i) {
        const double* const at = &places[static_cast<std::size_t>((b * count + i) * axes)];
        const Doubles wx = weights_at(at[0], width, o), wy = weights_at(at[1], height, o),
                      wz = axes == 3 ? weights_at(at[2], depth, o) : Doubles{1};
        double sum = 0;
        for (std::size_t k = 0; k < wz.size(); ++k)
          for (std::size_t j = 0; j < wy.size(); ++j)
            for (std::size_t m = 0; m < wx.size(); ++m)
              sum += wz[k] * wy[j] * wx[m] *
                     image[static_cast<std::size_t>(b * channels + c) * wz.size() * wy.size() * wx.size() +
                           (k * wy.size() + j) * wx.size() + m];
        y.push_back(sum);
      }
  return y;
}

// Calls fn with every combination of options that x of so many axes can have.
template <class F> void for_all_options(int axes, const F& fn) {
  for (const Mode mode : {Mode::linear, Mode::nearest, Mode::cubic})
    for (const GridPadding padding : kPaddings)
      for (const bool corners : {false, true})
        if (mode != Mode::cubic || axes == 2) {
          CAPTURE(static_cast<int>(mode));
          CAPTURE(static_cast<int>(padding));
          CAPTURE(corners);
          fn(GridSampleOptions{.mode = mode, .padding = padding, .align_corners = corners});
        }
}

void check_near(const NDArray& a, const Doubles& wanted, double tolerance) {
  const Doubles got = a.astype(DType::f64).to_vector<double>();
  REQUIRE(got.size() == wanted.size());
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, std::abs(got[i] - wanted[i]) / (1 + std::abs(wanted[i])));
  CHECK(worst <= tolerance);
}

}  // namespace

TEST_CASE("grid_sample is what its definition says, with every option, shape and floating dtype") {
  for (const Shape& shape : {Shape{2, 3, 5, 4}, Shape{1, 2, 1, 7}, Shape{2, 0, 3, 3}, Shape{1, 9, 6, 6},
                             Shape{2, 2, 3, 4, 5}, Shape{1, 1, 1, 2, 1}}) {
    const int axes = shape.size() - 2;
    CAPTURE(shape.to_string());
    const NDArray x = uniform(shape, 1), grid = uniform({shape[0], 300, axes}, 2, -2.5, 2.5);
    const Shape places = axes == 2 ? Shape{shape[0], 20, 15, 2} : Shape{shape[0], 5, 4, 15, 3};
    for_all_options(axes, [&](const GridSampleOptions& options) {
      const Doubles wanted = expected(x, grid, options);
      const NDArray y = grid_sample(x, grid.view_as(places), options);
      CHECK(y.shape()[1] == shape[1]);
      CHECK(y.shape()[2] == places[1]);
      check_near(y, wanted, 1e-12);
      const NDArray turned = swapaxes(swapaxes(x, 1, -1).copy(), 1, -1);
      if (x.size() > 0)
        CHECK(grid_sample(turned, grid.view_as(places), options).to_vector<double>() ==
              y.to_vector<double>());
      if (options.mode == Mode::nearest) return;  // rounding decides which element
      check_near(grid_sample(x.astype(DType::f32), grid.view_as(places).astype(DType::f32), options), wanted,
                 1e-4);
    });
  }
  const NDArray half = uniform({1, 1, 3, 3}, 3).astype(DType::f16), at = zeros({1, 1, 1, 2}, DType::f16);
  CHECK(grid_sample(half, at).dtype() == DType::f16);
  CHECK(grid_sample(half, at).astype(DType::f32).item<float>() ==
        half[0][0][1][1].astype(DType::f32).item<float>());
  CHECK(grid_sample(ones({1, 2, 3, 3}), zeros({1, 0, 4, 2})).shape() == Shape{1, 2, 0, 4});
}

TEST_CASE("gradients of grid_sample, first and second, agree with difference quotients") {
  for_all_options(2, [](const GridSampleOptions& options) {
    const NDArray x = uniform({1, 2, 4, 5}, 4);
    NDArray grid = uniform({1, 2, 3, 2}, 5, -1.4, 1.4);
    testing::check_gradients([&](In in) { return sin(grid_sample(in[0], grid, options)); }, {x});
    if (options.mode == Mode::nearest) return;
    testing::check_gradients([&](In in) { return sin(grid_sample(in[0], in[1], options)); }, {x, grid});
  });
  for_all_options(3, [](const GridSampleOptions& options) {
    if (options.mode == Mode::nearest) return;
    const NDArray x = uniform({1, 2, 2, 3, 2}, 6), grid = uniform({1, 1, 2, 2, 3}, 7, -1.3, 1.3);
    testing::check_gradients([&](In in) { return sin(grid_sample(in[0], in[1], options)); }, {x, grid});
  });
  NDArray grid = uniform({1, 2, 2, 2}, 8);
  set_requires_grad(grid);
  backward(sum(grid_sample(uniform({1, 1, 3, 3}, 9), grid, {.mode = Mode::nearest})));
  CHECK(grad(grid).to_vector<double>() == Doubles(8, 0));
}

TEST_CASE("grid_sample stays in its arrays, whatever the coordinates are") {
  const double huge = std::numeric_limits<double>::max(), inf = std::numeric_limits<double>::infinity(),
               nan = std::nan("");
  const Doubles bad{nan, inf, -inf, huge, -huge, 1e300, 1e19, -1e19, 3e9, 1e-320};
  Doubles places;
  for (const double a : bad)
    for (const double b : bad) places.insert(places.end(), {a, b});
  const NDArray image = uniform({1, 2, 3, 4}, 10, 1, 2);
  for_all_options(2, [&](const GridSampleOptions& options) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      NDArray x = image.astype(dtype), grid = array<double>(places, {1, 10, 10, 2}).astype(dtype);
      set_requires_grad(x);
      set_requires_grad(grid);
      const NDArray y = grid_sample(x, grid, options);
      backward(sum(y));
      y.wait();
      grad(x).wait();
      grad(grid).wait();
      // NaN counts as -1.
      const NDArray corner = grid_sample(x.detach(), full({1, 1, 1, 2}, -1, dtype), options);
      CHECK(y.detach()[0][0][0][0].astype(DType::f64).item<double>() ==
            corner[0][0][0][0].astype(DType::f64).item<double>());
    }
  });
  // Elements outside of the image are not read: an infinite one does not make NaN.
  const NDArray x = full({1, 1, 2, 2}, inf);
  CHECK(grid_sample(x, full({1, 1, 1, 2}, 9.0)).item<float>() == 0);
}

TEST_CASE("grid_sample and its gradients are the same bits with any number of workers") {
  for (const Mode mode : {Mode::linear, Mode::cubic}) {
    const auto run = [&](int workers) {
      Engine engine({.workers = workers});
      const EngineScope scope(engine);
      NDArray x = uniform({2, 17, 31, 23}, 11, -1, 1, DType::f32),
              grid = uniform({2, 61, 47, 2}, 12, -1.1, 1.1, DType::f32);
      set_requires_grad(x);
      set_requires_grad(grid);
      const NDArray y = grid_sample(x, grid, {.mode = mode});
      backward(sum(y * y));
      return std::vector{y.to_vector<float>(), grad(x).to_vector<float>(), grad(grid).to_vector<float>()};
    };
    const auto one = run(1);
    CHECK(one == run(2));
    CHECK(one == run(4));
  }
}

TEST_CASE("affine_grid by the identity leaves an image as it is, and has a gradient") {
  const NDArray same = array<double>({1, 0, 0, 0, 1, 0}, {1, 2, 3}),
                cube = array<double>({1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}, {1, 3, 4});
  const NDArray x = uniform({1, 2, 3, 5}, 13), volume = uniform({1, 2, 2, 3, 4}, 14);
  for (const bool corners : {false, true}) {
    const GridSampleOptions options{.align_corners = corners};
    CHECK(allclose(grid_sample(x, affine_grid(same, {1, 2, 3, 5}, corners), options), x));
    CHECK(allclose(grid_sample(volume, affine_grid(cube, {1, 2, 2, 3, 4}, corners), options), volume));
  }
  CHECK(affine_grid(same, {1, 1, 1, 2}, true).to_vector<double>() == Doubles{-1, 0, 1, 0});
  CHECK(affine_grid(same, {1, 1, 1, 2}).to_vector<double>() == Doubles{-0.5, 0, 0.5, 0});
  testing::check_gradients(
      [](In in) {
        return sin(affine_grid(in[0], {2, 1, 3, 2}));
      },
      {uniform({2, 2, 3}, 15)});
}

TEST_CASE("grid_sample and affine_grid refuse what does not fit, at the call") {
  const auto why = [](auto f) { return message_of<InvalidArgument>(f); };
  const NDArray x = ones({2, 1, 3, 3}), grid = zeros({2, 4, 4, 2});
  CHECK(why([&] { grid_sample(x, grid.astype(DType::f64)); }) ==
        "grid_sample: x is f32, grid is f64; want one dtype");
  CHECK(why([&] {
          grid_sample(ones({2, 3}), grid);
        }) == "grid_sample: x is (2, 3), grid is (2, 4, 4, 2); want x (N, C, H, W) or (N, C, D, H, W)");
  CHECK(why([&] {
          grid_sample(x, zeros({1, 4, 4, 2}));
        }) == "grid_sample: x is (2, 1, 3, 3), grid is (1, 4, 4, 2); want grid (N, H, W, 2) with the N of x");
  CHECK(why([&] {
          grid_sample(ones({1, 1, 2, 2, 2}), zeros({1, 4, 4, 2}));
        }).find("want grid (N, D, H, W, 3)") != std::string::npos);
  CHECK(why([&] {
          grid_sample(zeros({2, 1, 0, 3}), grid);
        }).find("want spatial axes of x with elements") != std::string::npos);
  CHECK(why([&] { grid_sample(x.astype(DType::i32), grid); }) ==
        "grid_sample: dtype i32; wanted a floating one");
  CHECK(why([&] { grid_sample(x, grid, {.mode = Mode::area}); }) ==
        "grid_sample: mode is another one; want linear, nearest or cubic");
  CHECK(why([&] {
          grid_sample(ones({1, 1, 2, 2, 2}), zeros({1, 1, 1, 1, 3}), {.mode = Mode::cubic});
        }).find("mode is cubic; want two spatial axes") != std::string::npos);
  CHECK(why([&] {
          affine_grid(ones({1, 2, 3}), {1, 2, 3});
        }) == "affine_grid: size is (1, 2, 3); want (N, C, H, W) or (N, C, D, H, W)");
  CHECK(why([&] {
          affine_grid(ones({1, 2, 3}), {2, 2, 3, 3});
        }) == "affine_grid: theta is (1, 2, 3), size is (2, 2, 3, 3); want theta (2, 2, 3)");
}
