// Convolutions along one, two and three axes and their transposes, of random shapes and options, compared with loops.
#include <algorithm>
#include <array>
#include <cstddef>
#include <message_of.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>
#include <heddle/operator_registry.h>
#include <heddle/ops.h>
#include <heddle/random.h>

#include "arguments.h"
#include "arrays.h"
#include "gradient_check.h"

using namespace heddle;
using heddle::test::check_close, heddle::test::message_of;

namespace {

using Three = std::array<std::int64_t, 3>;
using In = const std::vector<NDArray>&;

// The last numbers of `given`, with `missing` in front.
Three three(const Dims& given, std::int64_t missing) {
  Three numbers{missing, missing, missing};
  for (int i = 0; i < given.size(); ++i) numbers[static_cast<std::size_t>(3 - given.size() + i)] = given[i];
  return numbers;
}

Dims sizes_of(const NDArray& x) {
  Dims sizes;
  for (int axis = 2; axis < x.ndim(); ++axis) sizes.push_back(x.shape()[axis]);
  return sizes;
}

std::int64_t volume_of(const Three& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

// Calls body(position, offset) for each position in a block of these sizes.
template <class F> void for_each_place(const Three& sizes, F&& body) {
  std::int64_t at = 0;
  for (std::int64_t d = 0; d < sizes[0]; ++d)
    for (std::int64_t h = 0; h < sizes[1]; ++h)
      for (std::int64_t w = 0; w < sizes[2]; ++w) body(Three{d, h, w}, at++);
}

// Options with a number for each axis. `behind`: elements that the result of a transposed convolution gets at its end.
struct Geometry {
  Dims stride, before, dilation, behind;
  std::int64_t groups;
};

// Calls body(offset in the small image, offset in the large one, offset in the kernel) for the elements that a kernel connects.
template <class F>
void connect(const Geometry& g, const Three& small, const Three& large, const Three& kernel, F&& body) {
  const Three stride = three(g.stride, 1), before = three(g.before, 0), dilation = three(g.dilation, 1);
  for_each_place(small, [&](const Three& s, std::int64_t from) {
    for_each_place(kernel, [&](const Three& k, std::int64_t tap) {
      std::int64_t to = 0;
      for (std::size_t axis = 0; axis < 3; ++axis) {
        const std::int64_t place = s[axis] * stride[axis] + k[axis] * dilation[axis] - before[axis];
        if (place < 0 || place >= large[axis]) return;
        to = to * large[axis] + place;
      }
      body(static_cast<std::size_t>(from), static_cast<std::size_t>(to), static_cast<std::size_t>(tap));
    });
  });
}

// The convolution of x, or with `transposed` its transpose, as a result of this shape.
std::vector<double> by_loops(const Geometry& g, const NDArray& x, const NDArray& weight, const Shape& result,
                             bool transposed) {
  const std::vector<double> in = x.to_vector<double>(), w = weight.to_vector<double>();
  std::vector<double> out(static_cast<std::size_t>(element_count(result)), 0);
  const Three of_x = three(sizes_of(x), 1), of_out = three(
                                                [&] {
                                                  Dims sizes;
                                                  for (int i = 2; i < result.size(); ++i)
                                                    sizes.push_back(result[i]);
                                                  return sizes;
                                                }(),
                                                1);
  const Three kernel = three(sizes_of(weight), 1);
  const std::int64_t channels = x.shape()[1], outputs = result[1];
  for (std::int64_t n = 0; n < result[0]; ++n)
    for (std::int64_t o = 0; o < outputs; ++o)
      for (std::int64_t c = 0; c < channels; ++c) {
        if (o / (outputs / g.groups) != c / (channels / g.groups)) continue;
        const std::int64_t row = transposed ? c * (outputs / g.groups) + o % (outputs / g.groups)
                                            : o * (channels / g.groups) + c % (channels / g.groups);
        const double* const taps = w.data() + row * volume_of(kernel);
        const double* const from = in.data() + (n * channels + c) * volume_of(of_x);
        double* const to = out.data() + (n * outputs + o) * volume_of(of_out);
        if (transposed)
          connect(g, of_x, of_out, kernel,
                  [&](std::size_t i, std::size_t j, std::size_t k) { to[j] += from[i] * taps[k]; });
        else
          connect(g, of_out, of_x, kernel,
                  [&](std::size_t i, std::size_t j, std::size_t k) { to[i] += from[j] * taps[k]; });
      }
  return out;
}

void check_equal(const NDArray& y, const std::vector<double>& expected, double tolerance) {
  const std::vector<double> values = y.astype(DType::f64).to_vector<double>();
  REQUIRE(values.size() == expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    worst = std::max(worst, std::abs(values[i] - expected[i]) / std::max(1.0, std::abs(expected[i])));
  CHECK(worst <= tolerance);
}

// Random sizes, the same in each run.
class Sizes {
 public:
  explicit Sizes(std::uint64_t seed) : generator_(seed) {}
  std::int64_t number(std::int64_t least, std::int64_t most) {
    return generator_.integers({1}, least, most + 1).item<std::int64_t>();
  }
  Dims numbers(int count, std::int64_t least, std::int64_t most) {
    Dims all;
    for (int i = 0; i < count; ++i) all.push_back(number(least, most));
    return all;
  }
  NDArray array(std::int64_t first, std::int64_t second, const Dims& sizes) {
    Shape shape{first, second};
    for (const std::int64_t size : sizes) shape.push_back(size);
    return generator_.normal(shape, 0, 1, DType::f64);
  }

 private:
  Generator generator_;
};

auto conv_along(int axes) { return axes == 1 ? conv1d : axes == 2 ? conv2d : conv3d; }
auto conv_transpose_along(int axes) {
  return axes == 1 ? conv_transpose1d : axes == 2 ? conv_transpose2d : conv_transpose3d;
}

const int kCases = test::kSanitized ? 8 : 60;

}  // namespace

TEST_CASE("convolutions of random shapes agree with loops") {
  for (int axes = 1; axes <= 3; ++axes) {
    Sizes sizes(static_cast<std::uint64_t>(axes));
    for (int i = 0; i < kCases; ++i) {
      const std::int64_t groups = sizes.number(1, 3);
      const bool same = i % 4 == 0;
      const Dims kernel = sizes.numbers(axes, 1, 4), dilation = sizes.numbers(axes, 1, 3);
      const Dims stride = same ? Dims::filled(axes, 1) : sizes.numbers(axes, 1, 3);
      Dims before = sizes.numbers(axes, 0, 3), in, out;
      for (int axis = 0; axis < axes; ++axis) {
        const std::int64_t span = dilation[axis] * (kernel[axis] - 1) + 1;
        if (same) before[axis] = (span - 1) / 2;
        in.push_back(std::max(sizes.number(1, 6), same ? 1 : span - 2 * before[axis]));
        out.push_back(same ? in[axis] : (in[axis] + 2 * before[axis] - span) / stride[axis] + 1);
      }
      const NDArray x = sizes.array(sizes.number(0, 3), groups * sizes.number(1, 9), in);
      const NDArray weight = sizes.array(groups * sizes.number(1, 9), x.shape()[1] / groups, kernel);
      Shape shape{x.shape()[0], weight.shape()[0]};
      for (const std::int64_t size : out) shape.push_back(size);
      const ConvOptions options{.stride = stride,
                                .padding = same ? Padding("same") : Padding(before),
                                .dilation = dilation,
                                .groups = groups};
      CAPTURE(x.shape().to_string());
      CAPTURE(weight.shape().to_string());
      const auto conv = conv_along(axes);
      const NDArray y = conv(x, weight, {}, options, Where::current());
      REQUIRE(y.shape() == shape);
      const std::vector<double> expected =
          by_loops({stride, before, dilation, {}, groups}, x, weight, shape, false);
      check_equal(y, expected, 1e-11);
      check_equal(conv(x.astype(DType::f32), weight.astype(DType::f32), {}, options, Where::current()),
                  expected, 1e-4);
    }
  }
}

TEST_CASE("transposed convolutions of random shapes agree with loops") {
  for (int axes = 1; axes <= 3; ++axes) {
    Sizes sizes(static_cast<std::uint64_t>(10 + axes));
    for (int i = 0; i < kCases; ++i) {
      const std::int64_t groups = sizes.number(1, 3);
      const Dims kernel = sizes.numbers(axes, 1, 4), dilation = sizes.numbers(axes, 1, 3),
                 stride = sizes.numbers(axes, 1, 3), in = sizes.numbers(axes, 1, 5);
      Dims before = sizes.numbers(axes, 0, 2), behind, out;
      for (int axis = 0; axis < axes; ++axis) {
        behind.push_back(sizes.number(0, std::max(stride[axis], dilation[axis]) - 1));
        const std::int64_t whole =
            (in[axis] - 1) * stride[axis] + dilation[axis] * (kernel[axis] - 1) + behind[axis] + 1;
        before[axis] = std::min(before[axis], (whole - 1) / 2);
        out.push_back(whole - 2 * before[axis]);
      }
      const NDArray x = sizes.array(sizes.number(0, 3), groups * sizes.number(1, 9), in);
      const NDArray weight = sizes.array(x.shape()[1], sizes.number(1, 9), kernel);
      Shape shape{x.shape()[0], groups * weight.shape()[1]};
      for (const std::int64_t size : out) shape.push_back(size);
      const ConvTransposeOptions options{.stride = stride,
                                         .padding = before,
                                         .output_padding = behind,
                                         .dilation = dilation,
                                         .groups = groups};
      CAPTURE(x.shape().to_string());
      CAPTURE(weight.shape().to_string());
      const auto conv = conv_transpose_along(axes);
      const NDArray y = conv(x, weight, {}, options, Where::current());
      REQUIRE(y.shape() == shape);
      const std::vector<double> expected =
          by_loops({stride, before, dilation, behind, groups}, x, weight, shape, true);
      check_equal(y, expected, 1e-11);
      check_equal(conv(x.astype(DType::f32), weight.astype(DType::f32), {}, options, Where::current()),
                  expected, 1e-4);
    }
  }
}

TEST_CASE("gradients of convolutions along three axes, and with 'same', agree with finite differences") {
  Sizes sizes(21);
  const NDArray volume = sizes.array(2, 2, {3, 2, 4}), line = sizes.array(2, 4, 5);
  testing::check_gradients(
      [](In in) {
        return conv3d(in[0], in[1], in[2],
                      {.stride = {2, 1, 2}, .padding = {1, 0, 2}, .dilation = {1, 1, 2}, .relu = true});
      },
      {volume, sizes.array(3, 2, {2, 2, 2}), sizes.array(1, 3, {})[0]});
  testing::check_gradients([](In in) { return conv3d(in[0], in[1], {}, {.padding = "same", .groups = 2}); },
                           {volume, sizes.array(2, 1, {2, 1, 3})});
  testing::check_gradients(
      [](In in) { return conv1d(in[0], in[1], in[2], {.padding = "same", .groups = 2, .relu = true}); },
      {line, sizes.array(2, 2, 4), sizes.array(1, 2, {})[0]});
  testing::check_gradients(
      [](In in) {
        return conv_transpose1d(in[0], in[1], in[2],
                                {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2});
      },
      {line, sizes.array(4, 2, 3), sizes.array(1, 4, {})[0]});
  testing::check_gradients(
      [](In in) {
        return conv_transpose3d(in[0], in[1], in[2],
                                {.stride = {1, 2, 1}, .padding = {0, 1, 1}, .output_padding = {0, 1, 0}});
      },
      {sizes.array(1, 2, {2, 1, 3}), sizes.array(2, 2, {2, 2, 2}), sizes.array(1, 2, {})[0]});
}

TEST_CASE("gradients of f32 convolutions agree with those of f64") {
  for (int axes = 1; axes <= 3; ++axes) {
    Sizes sizes(static_cast<std::uint64_t>(30 + axes));
    for (const std::int64_t width : {3, 16, 32}) {
      const std::int64_t groups = width == 3 ? 1 : width / 16;
      const NDArray values[] = {sizes.array(5, width, sizes.numbers(axes, 5, 9)),
                                sizes.array(width, width / groups, sizes.numbers(axes, 2, 3)),
                                sizes.array(1, width, {})[0]};
      for (const bool relu : {false, true}) {
        const auto run = [&](DType dtype) {
          std::vector<NDArray> leaves;
          for (const NDArray& value : values) leaves.push_back(value.astype(dtype));
          for (NDArray& leaf : leaves) set_requires_grad(leaf);
          const ConvOptions options{
              .stride = Dims::filled(axes, 2), .padding = 1, .groups = groups, .relu = relu};
          const NDArray y = conv_along(axes)(leaves[0], leaves[1], leaves[2], options, Where::current());
          backward(y, cos(y.detach() * 0 + arange(0, static_cast<double>(y.shape()[axes + 1]), 1, dtype)));
          return std::vector<NDArray>{y.detach(), grad(leaves[0]), grad(leaves[1]), grad(leaves[2])};
        };
        const std::vector<NDArray> single = run(DType::f32), wide = run(DType::f64);
        for (std::size_t i = 0; i < wide.size(); ++i) check_close(single[i], wide[i], 2e-3);
      }
    }
  }
}

TEST_CASE("convolutions give the same bits with any number of workers") {
  const auto program = [](DType dtype) {
    Sizes sizes(41);
    std::vector<NDArray> results;
    for (int axes = 1; axes <= 3; ++axes) {
      NDArray x = sizes.array(7, 6, Dims::filled(axes, 9)).astype(dtype),
              weight = sizes.array(6, 3, Dims::filled(axes, 3)).astype(dtype);
      set_requires_grad(x);
      set_requires_grad(weight);
      const NDArray y = conv_along(axes)(x, weight, {}, {.stride = 2, .groups = 2}, Where::current());
      const NDArray z =
          conv_transpose_along(axes)(y, weight, {}, {.stride = 2, .groups = 2}, Where::current());
      backward(sum(square(z)));
      for (const NDArray& one : {z.detach(), grad(x), grad(weight)})
        results.push_back(reshape(one.astype(DType::f64), {-1}));
    }
    return concat(results, 0);
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    std::vector<double> first;
    for (const int workers : {1, 2, 4}) {
      Engine engine({.workers = workers});
      const EngineScope scope(engine);
      const std::vector<double> values = program(dtype).to_vector<double>();
      if (first.empty()) first = values;
      CHECK(values == first);
    }
  }
}

TEST_CASE("arguments of convolutions, by name and in C++") {
  const NDArray x = ones({1, 2, 5, 4}), weight = ones({3, 2, 2, 3});
  const auto why = [](auto f) { return message_of<InvalidArgument>(f); };
  CHECK(conv2d(x, weight, {}, {.padding = "same"}).shape() == Shape{1, 3, 5, 4});
  CHECK(conv2d(x, weight, {}, {.padding = "valid"}).shape() == Shape{1, 3, 4, 2});
  CHECK(conv2d(x, weight, {}, {.stride = 2, .padding = 1}).shape() == Shape{1, 3, 3, 2});
  CHECK(std::get<NDArray>(call_operator("conv2d", {x, weight}, {{"padding", "same"}})[0]).shape() ==
        Shape{1, 3, 5, 4});
  CHECK(std::get<NDArray>(call_operator("conv2d", {x, weight}, {{"padding", Dims{0, 1}}})[0]).shape() ==
        Shape{1, 3, 4, 4});
  CHECK(why([&] { conv2d(x, weight, {}, {.padding = "full"}); }) ==
        "padding is 'full'; want 'same', 'valid' or numbers");
  CHECK(why([&] {
          call_operator("conv2d", {x, weight}, {{"padding", "full"}});
        }) == "conv2d: padding is 'full'; wanted: int or list of ints or 'same' or 'valid'");
  CHECK(why([&] {
          conv2d(x, weight, {}, {.stride = {1, 2}, .padding = "same"});
        }) == "conv2d: padding is 'same' and a stride 2; 'same' wants strides of 1");
  CHECK(why([&] {
          conv2d(x, weight, {}, {.stride = {1, 2, 3}});
        }) == "conv2d: stride is (1, 2, 3); want 1 or 2 numbers");
  CHECK(
      why([&] { conv3d(x, weight); }) ==
      "conv3d: x (1, 2, 5, 4), weight (3, 2, 2, 3); wanted (N, C, D, H, W) and (O, C / groups, kd, kh, kw)");
  CHECK(why([&] {
          conv_transpose1d(ones({1, 2, 3}), ones({2, 1, 2}), {}, {.padding = {1, 1}});
        }) == "conv_transpose1d: padding is (1, 1); want 1 number");
}

TEST_CASE("a changed input of a transposed convolution is an error that names it") {
  NDArray x = ones({1, 2, 3, 3}), weight = ones({2, 1, 2, 2});
  set_requires_grad(weight);
  const NDArray y = conv_transpose2d(x, weight);
  x.fill(2);
  CHECK(message_of<Error>([&] { backward(sum(y)); }).find("conv_transpose2d") != std::string::npos);
}
