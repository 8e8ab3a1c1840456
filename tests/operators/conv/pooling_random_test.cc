// Pooling along one, two and three axes, of random shapes and options, compared with loops.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <message_of.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>
#include <heddle/operator_registry.h>
#include <heddle/ops.h>
#include <heddle/random.h>

#include "arguments.h"
#include "gradient_check.h"

using namespace heddle;
using heddle::test::message_of;

namespace {

using Places = std::vector<std::size_t>;
using In = const std::vector<NDArray>&;

// One axis of one window: the elements inside, and how many places it has within the padded axis.
struct AxisPart {
  std::vector<std::int64_t> inside;
  std::int64_t padded = 0;
};

// The windows along one axis, by the definition. `stride` 0 divides the axis into `kernel` windows instead.
std::vector<AxisPart> parts_of(std::int64_t size, std::int64_t kernel, std::int64_t stride,
                               std::int64_t padding, std::int64_t dilation, bool ceil_mode) {
  std::vector<AxisPart> parts;
  if (stride == 0) {
    for (std::int64_t i = 0; i < kernel; ++i) {
      AxisPart part;
      for (std::int64_t at = i * size / kernel; at * kernel < (i + 1) * size; ++at) part.inside.push_back(at);
      part.padded = static_cast<std::int64_t>(part.inside.size());
      parts.push_back(part);
    }
    return parts;
  }
  const std::int64_t span = dilation * (kernel - 1) + 1;
  for (std::int64_t start = -padding;; start += stride) {
    const bool whole = start + span <= size + padding;
    if (!whole && (!ceil_mode || start >= size || start + span - stride >= size + padding)) return parts;
    AxisPart part;
    for (std::int64_t k = 0; k < kernel; ++k) {
      const std::int64_t at = start + k * dilation;
      if (at >= 0 && at < size) part.inside.push_back(at);
      if (at < size + padding) ++part.padded;
    }
    parts.push_back(part);
  }
}

struct Expected {
  std::vector<double> y, x_grad;
};

// Of an image of three axes with `planes`, for a gradient of the result of 1, 2, 3, ...
Expected by_loops(const NDArray& x, const std::array<std::vector<AxisPart>, 3>& parts, bool max,
                  bool count_pad) {
  const std::vector<double> in = x.to_vector<double>();
  std::array<std::size_t, 3> size{1, 1, 1};
  for (int axis = 2; axis < x.ndim(); ++axis)
    size[static_cast<std::size_t>(3 - x.ndim() + axis)] = static_cast<std::size_t>(x.shape()[axis]);
  Expected expected{{}, std::vector<double>(in.size(), 0)};
  const std::size_t plane = size[0] * size[1] * size[2];
  for (std::size_t first = 0; first < in.size(); first += plane)
    for (const AxisPart& d : parts[0])
      for (const AxisPart& h : parts[1])
        for (const AxisPart& w : parts[2]) {
          Places places;
          for (const std::int64_t i : d.inside)
            for (const std::int64_t j : h.inside)
              for (const std::int64_t k : w.inside)
                places.push_back(
                    first + (static_cast<std::size_t>(i) * size[1] + static_cast<std::size_t>(j)) * size[2] +
                    static_cast<std::size_t>(k));
          const auto g = static_cast<double>(expected.y.size() + 1);
          if (max) {
            const std::size_t best = *std::max_element(
                places.begin(), places.end(), [&](std::size_t a, std::size_t b) { return in[a] < in[b]; });
            expected.y.push_back(in[best]);
            expected.x_grad[best] += g;
          } else {
            const auto count = count_pad ? static_cast<double>(d.padded * h.padded * w.padded)
                                         : static_cast<double>(places.size());
            double sum = 0;
            for (const std::size_t place : places) sum += in[place];
            expected.y.push_back(sum / count);
            for (const std::size_t place : places) expected.x_grad[place] += g / count;
          }
        }
  return expected;
}

void check_pool(NDArray (*pool)(const NDArray& x, const PoolOptions& options, const Dims& size, int axes),
                NDArray x, const PoolOptions& options, const Dims& size, const Expected& expected) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    NDArray leaf = x.astype(dtype);
    set_requires_grad(leaf);
    const NDArray y = pool(leaf, options, size, x.ndim() - 2);
    backward(y, reshape(arange(1, static_cast<double>(y.size() + 1), 1, dtype), y.shape()));
    const double tolerance = dtype == DType::f64 ? 1e-12 : 1e-5;
    for (const auto& [array, wanted] :
         {std::pair(y.detach(), expected.y), std::pair(grad(leaf), expected.x_grad)}) {
      const std::vector<double> values = array.astype(DType::f64).to_vector<double>();
      REQUIRE(values.size() == wanted.size());
      double worst = 0;
      for (std::size_t i = 0; i < values.size(); ++i)
        worst = std::max(worst, std::abs(values[i] - wanted[i]) / std::max(1.0, std::abs(wanted[i])));
      CHECK(worst <= tolerance);
    }
  }
}

NDArray max_pool(const NDArray& x, const PoolOptions& o, const Dims&, int axes) {
  return axes == 1 ? max_pool1d(x, o) : axes == 2 ? max_pool2d(x, o) : max_pool3d(x, o);
}
NDArray avg_pool(const NDArray& x, const PoolOptions& o, const Dims&, int axes) {
  return axes == 1 ? avg_pool1d(x, o) : axes == 2 ? avg_pool2d(x, o) : avg_pool3d(x, o);
}
NDArray adaptive_max_pool(const NDArray& x, const PoolOptions&, const Dims& size, int axes) {
  return axes == 1   ? adaptive_max_pool1d(x, size)
         : axes == 2 ? adaptive_max_pool2d(x, size)
                     : adaptive_max_pool3d(x, size);
}
NDArray adaptive_avg_pool(const NDArray& x, const PoolOptions&, const Dims& size, int axes) {
  return axes == 1   ? adaptive_avg_pool1d(x, size)
         : axes == 2 ? adaptive_avg_pool2d(x, size)
                     : adaptive_avg_pool3d(x, size);
}

std::int64_t number(Generator& generator, std::int64_t least, std::int64_t most) {
  return generator.integers({1}, least, most + 1).item<std::int64_t>();
}

// Whole numbers, so that windows have ties.
NDArray image(Generator& generator, int axes, std::int64_t most) {
  Shape shape{number(generator, 1, 2), number(generator, 1, 2)};
  for (int axis = 0; axis < axes; ++axis) shape.push_back(number(generator, 1, most));
  return generator.integers(shape, -5, 6).astype(DType::f64);
}

const int kCases = test::kSanitized ? 10 : 80;

}  // namespace

TEST_CASE("pooling of random shapes agrees with loops, and so do its gradients") {
  for (int axes = 1; axes <= 3; ++axes) {
    Generator generator(static_cast<std::uint64_t>(axes));
    for (int i = 0; i < kCases; ++i) {
      // Every third image is wide enough for loops over many windows at once.
      const NDArray x = image(generator, axes, i % 3 == 0 ? (axes == 3 ? 20 : 90) : 9);
      PoolOptions options{.kernel = {},
                          .padding = {},
                          .count_include_pad = i % 2 == 0,
                          .dilation = {},
                          .ceil_mode = i % 4 < 2};
      std::array<std::vector<AxisPart>, 3> of_max{}, of_avg{};
      bool fits = true;
      for (int axis = 0; axis < axes; ++axis) {
        const std::int64_t size = x.shape()[axis + 2], kernel = number(generator, 1, 4),
                           stride = number(generator, 1, 3), padding = number(generator, 0, kernel / 2),
                           dilation = number(generator, 1, padding > 0 ? std::min<std::int64_t>(size, 3) : 3);
        options.kernel.push_back(kernel);
        options.stride.push_back(stride);
        options.padding.push_back(padding);
        options.dilation.push_back(dilation);
        const auto at = static_cast<std::size_t>(3 - axes + axis);
        of_max[at] = parts_of(size, kernel, stride, padding, dilation, options.ceil_mode);
        of_avg[at] = parts_of(size, kernel, stride, padding, 1, options.ceil_mode);
        fits = fits && !of_max[at].empty() && !of_avg[at].empty();
      }
      if (!fits) continue;
      for (int axis = 0; axis < 3 - axes; ++axis)
        of_max[static_cast<std::size_t>(axis)] = of_avg[static_cast<std::size_t>(axis)] = {{{0}, 1}};
      CAPTURE(x.shape().to_string());
      CAPTURE(options.kernel.to_string());
      CAPTURE(options.stride.to_string());
      CAPTURE(options.padding.to_string());
      CAPTURE(options.dilation.to_string());
      check_pool(max_pool, x, options, {}, by_loops(x, of_max, true, false));
      options.dilation = 1;
      check_pool(avg_pool, x, options, {}, by_loops(x, of_avg, false, options.count_include_pad));
    }
  }
}

TEST_CASE("adaptive pooling of random shapes agrees with loops, and so do its gradients") {
  for (int axes = 1; axes <= 3; ++axes) {
    Generator generator(static_cast<std::uint64_t>(10 + axes));
    for (int i = 0; i < kCases / 2; ++i) {
      const NDArray x = image(generator, axes, 12);
      Dims size;
      std::array<std::vector<AxisPart>, 3> parts{{{{{0}, 1}}, {{{0}, 1}}, {{{0}, 1}}}};
      for (int axis = 0; axis < axes; ++axis) {
        size.push_back(number(generator, 1, 14));
        parts[static_cast<std::size_t>(3 - axes + axis)] =
            parts_of(x.shape()[axis + 2], size[axis], 0, 0, 1, false);
      }
      CAPTURE(x.shape().to_string());
      CAPTURE(size.to_string());
      check_pool(adaptive_max_pool, x, {}, size, by_loops(x, parts, true, false));
      check_pool(adaptive_avg_pool, x, {}, size, by_loops(x, parts, false, false));
    }
  }
}

TEST_CASE("gradients of all poolings agree with finite differences, the second ones too") {
  for (int axes = 1; axes <= 3; ++axes) {
    Shape shape{1, 2};
    for (int axis = 0; axis < axes; ++axis) shape.push_back(axis == 0 ? 5 : 4);
    const NDArray x = Generator(3).uniform(shape, -9, 9, DType::f64);
    const PoolOptions overlapping{
        .kernel = 3, .stride = 2, .padding = 1, .count_include_pad = false, .ceil_mode = true};
    const PoolOptions dilated{.kernel = 2, .stride = 1, .padding = 1, .dilation = 2};
    testing::check_gradients([&](In in) { return sin(max_pool(in[0], overlapping, {}, axes)); }, {x}, 1e-5);
    testing::check_gradients([&](In in) { return sin(max_pool(in[0], dilated, {}, axes)); }, {x}, 1e-5);
    testing::check_gradients([&](In in) { return sin(avg_pool(in[0], overlapping, {}, axes)); }, {x}, 1e-5);
    testing::check_gradients([&](In in) { return sin(adaptive_max_pool(in[0], {}, 3, axes)); }, {x}, 1e-5);
    testing::check_gradients([&](In in) { return sin(adaptive_avg_pool(in[0], {}, 3, axes)); }, {x}, 1e-5);
  }
}

TEST_CASE("max pooling of -inf, NaN and ties, in windows of a row that is computed at once") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  for (const DType dtype : {DType::f32, DType::f64}) {
    std::vector<double> values(201, -inf);
    for (std::size_t i = 60; i < 200; ++i) values[i] = static_cast<double>(i % 4);
    values[100] = values[101] = nan;
    NDArray x = array(values, {1, 1, 201}).astype(dtype);
    set_requires_grad(x);
    const NDArray y = max_pool1d(x, {.kernel = 3, .stride = 2, .padding = 1});
    backward(y, ones(y.shape(), dtype));
    std::vector<double> expected(201, 0);
    for (std::int64_t start = -1; start + 3 <= 202; start += 2) {
      std::size_t best = static_cast<std::size_t>(std::max<std::int64_t>(start, 0));
      for (std::int64_t at = start; at < start + 3; ++at) {
        if (at < 0 || at >= 201) continue;
        const double one = values[static_cast<std::size_t>(at)];
        if (one > values[best] || (std::isnan(one) && !std::isnan(values[best])))
          best = static_cast<std::size_t>(at);
      }
      ++expected[best];
    }
    CHECK(grad(x).astype(DType::f64).to_vector<double>() == expected);
    CHECK(std::isnan(y.astype(DType::f64).to_vector<double>()[50]));
    CHECK(y.astype(DType::f64).to_vector<double>()[3] == -inf);
  }
}

TEST_CASE("pooling gives the same bits with any number of workers") {
  const auto program = [] {
    std::vector<NDArray> results;
    for (int axes = 1; axes <= 3; ++axes) {
      Shape shape{5, 7};
      for (int axis = 0; axis < axes; ++axis) shape.push_back(axes == 1 ? 3000 : 21);
      NDArray x = Generator(5).normal(shape);
      set_requires_grad(x);
      const PoolOptions options{.kernel = 3, .stride = 2, .padding = 1, .ceil_mode = true};
      const NDArray y =
          sum(square(max_pool(x, options, {}, axes))) + sum(square(avg_pool(x, options, {}, axes))) +
          sum(square(adaptive_avg_pool(x, {}, 4, axes))) + sum(square(adaptive_max_pool(x, {}, 5, axes)));
      backward(y);
      results.push_back(reshape(y.detach(), {1}));
      results.push_back(reshape(grad(x), {-1}));
    }
    return concat(results, 0);
  };
  std::vector<float> first;
  for (const int workers : {1, 2, 4}) {
    Engine engine({.workers = workers});
    const EngineScope scope(engine);
    const std::vector<float> values = program().to_vector<float>();
    if (first.empty()) first = values;
    CHECK(values == first);
  }
}

TEST_CASE("adaptive pooling of arrays without elements, of halves and of strided arrays") {
  NDArray none = zeros({0, 3, 4, 4});
  set_requires_grad(none);
  for (const NDArray& y : {adaptive_max_pool2d(none, {2, 3}), adaptive_avg_pool2d(none, {2, 3})}) {
    CHECK(y.shape() == Shape{0, 3, 2, 3});
    backward(y, zeros({0, 3, 2, 3}));
    CHECK(grad(none).shape() == Shape{0, 3, 4, 4});
  }
  CHECK(adaptive_avg_pool3d(zeros({2, 0, 4, 4, 4}), 2).shape() == Shape{2, 0, 2, 2, 2});
  const NDArray x = Generator(6).normal({2, 6, 5, 3}), strided = x.permuted({0, 3, 1, 2});
  CHECK(adaptive_max_pool2d(strided, 2).to_vector<float>() ==
        adaptive_max_pool2d(strided.copy(), 2).to_vector<float>());
  CHECK(avg_pool2d(strided, {.stride = 1}).to_vector<float>() ==
        avg_pool2d(strided.copy(), {.stride = 1}).to_vector<float>());
  for (const DType half : {DType::f16, DType::bf16}) {
    CHECK(adaptive_avg_pool2d(x.astype(half), 2).astype(DType::f32).to_vector<float>() ==
          adaptive_avg_pool2d(x.astype(half).astype(DType::f32), 2)
              .astype(half)
              .astype(DType::f32)
              .to_vector<float>());
    CHECK(max_pool3d(reshape(x.astype(half), {1, 2, 6, 5, 3})).dtype() == half);
  }
}

TEST_CASE("pooling along one and three axes refuses what it cannot do, at the call") {
  const auto why = [](auto f) { return message_of<InvalidArgument>(f); };
  const NDArray line = zeros({1, 1, 4}), volume = zeros({1, 1, 2, 4, 4});
  CHECK(why([&] { max_pool1d(volume); }) == "max_pool1d: x (1, 1, 2, 4, 4); wanted (N, C, L)");
  CHECK(why([&] { avg_pool3d(line); }) == "avg_pool3d: x (1, 1, 4); wanted (N, C, D, H, W)");
  CHECK(why([&] { max_pool1d(line, {.kernel = {2, 2}}); }) == "max_pool1d: kernel is (2, 2); want 1 number");
  CHECK(why([&] {
          max_pool3d(volume, {.kernel = {2, 2}});
        }) == "max_pool3d: kernel is (2, 2); want 1 or 3 numbers");
  CHECK(why([&] { max_pool1d(line, {.kernel = 3, .dilation = 2}); }) ==
        "max_pool1d: a window of 5 is larger than the padded input 4");
  CHECK(why([&] { max_pool1d(line, {.dilation = 0}); }) == "max_pool1d: dilation 0; wanted at least 1");
  CHECK(why([&] { max_pool1d(line, {.padding = 1, .dilation = 5}); }) ==
        "max_pool1d: padding 1 and dilation 5 make windows without an element of the axis of 4");
  CHECK(why([&] { avg_pool1d(line, {.dilation = 2}); }) ==
        "avg_pool1d: dilation is (2,); want 1, since a mean has no dilation");
  CHECK(why([&] { max_pool2d(volume[0], {.stride = 0}); }) ==
        "max_pool2d: kernel 2, stride 0, padding 0; wanted at least 1, at least 1, and 0 to half the kernel");
  CHECK(why([&] {
          adaptive_avg_pool2d(volume[0], {2, 0});
        }) == "adaptive_avg_pool2d: size is (2, 0); want 1 or more");
  CHECK(why([&] {
          adaptive_max_pool3d(volume, {2, 2});
        }) == "adaptive_max_pool3d: size is (2, 2); want 1 or 3 numbers");
  CHECK(why([&] {
          adaptive_max_pool1d(zeros({2, 3, 0}), 1);
        }) == "adaptive_max_pool1d: x (2, 3, 0); wanted no axis of 0 but N and C");
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  CHECK_THROWS_AS(max_pool1d(line, {.kernel = 3, .dilation = kMost}), InvalidArgument);
  CHECK(max_pool1d(line, {.kernel = kMost / 4, .stride = kMost / 4, .padding = kMost / 8, .ceil_mode = true})
            .shape() == Shape{1, 1, 1});
}
