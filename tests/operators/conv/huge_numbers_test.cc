// Convolutions and poolings with strides, dilations and windows near the ends of 64 bits and of int.
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/multiply_adds.h>
#include <heddle/ops.h>
#include <heddle/random.h>

using namespace heddle;

namespace {

using Doubles = std::vector<double>;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kInt = std::numeric_limits<std::int32_t>::max();

NDArray leaf(const Shape& shape, std::uint64_t seed, DType dtype) {
  NDArray x = Generator(seed).normal(shape, 0, 1, DType::f64).astype(dtype);
  set_requires_grad(x);
  return x;
}

void append(Doubles& all, const NDArray& x) {
  const Doubles more = x.astype(DType::f64).to_vector<double>();
  all.insert(all.end(), more.begin(), more.end());
}

// The result of a function of these arrays and their gradients.
using Function = std::function<NDArray(const std::vector<NDArray>&)>;
Doubles results(const Function& f, const std::vector<NDArray>& inputs, bool create_graph = false) {
  const NDArray y = f(inputs), g = Generator(9).normal(y.shape(), 0, 1, DType::f64).astype(y.dtype());
  Doubles all;
  append(all, y);
  for (const NDArray& gradient : grad({sum(y * g)}, inputs, {.create_graph = create_graph}))
    append(all, gradient);
  return all;
}

void check_same(const Doubles& a, const Doubles& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-5));
}

void check_same(const std::vector<NDArray>& inputs, const Function& f, const Function& wanted) {
  for (const bool create_graph : {false, true})
    check_same(results(f, inputs, create_graph), results(wanted, inputs, create_graph));
}

}  // namespace

TEST_CASE("a stride beyond the padded axis leaves one window, whatever its size") {
  using In = const std::vector<NDArray>&;
  for (const DType dtype : {DType::f32, DType::f64})
    for (const std::int64_t stride : {std::int64_t{100}, kInt - 1, kInt, kMost - 1, kMost})
      for (const bool ceil : {false, true}) {
        CAPTURE(stride);
        const NDArray line = leaf({2, 1, 5}, 1, dtype), image = leaf({1, 2, 3, 30}, 2, dtype);
        const auto with = [ceil](std::int64_t s) {
          return PoolOptions{.kernel = 4, .stride = s, .padding = 2, .ceil_mode = ceil};
        };
        check_same(
            {line}, [&](In in) { return max_pool1d(in[0], with(stride)); },
            [&](In in) { return max_pool1d(in[0], with(9)); });
        check_same(
            {line}, [&](In in) { return avg_pool1d(in[0], with(stride)); },
            [&](In in) { return avg_pool1d(in[0], with(9)); });
        check_same(
            {image}, [&](In in) { return max_pool2d(in[0], with(stride)); },
            [&](In in) { return max_pool2d(in[0], with(34)); });
        check_same(
            {image}, [&](In in) { return avg_pool2d(in[0], with(stride)); },
            [&](In in) { return avg_pool2d(in[0], with(34)); });
        const NDArray spots = leaf({1, 1, 5}, 3, dtype);
        check_same(
            {spots},
            [&](In in) { return max_pool1d(in[0], {.kernel = 1, .dilation = kMost, .ceil_mode = ceil}); },
            [](In in) { return in[0] * 1; });
      }
}

TEST_CASE("convolutions of one window take any stride, and kernels of one element any dilation") {
  using In = const std::vector<NDArray>&;
  for (const DType dtype : {DType::f32, DType::f64})
    for (const std::int64_t stride : {std::int64_t{1} << 21, kInt - 1, kInt, kMost}) {
      CAPTURE(stride);
      const NDArray x = leaf({2, 2, 3, 5}, 1, dtype), weight = leaf({3, 2, 2, 4}, 2, dtype);
      check_same(
          {x, weight}, [&](In in) { return conv2d(in[0], in[1], {}, {.stride = stride, .padding = 2}); },
          [&](In in) { return conv2d(in[0], in[1], {}, {.stride = 9, .padding = 2}); });
      const NDArray spot = leaf({3, 2, 1, 1}, 3, dtype);
      check_same(
          {x, spot}, [&](In in) { return conv2d(in[0], in[1], {}, {.dilation = stride}); },
          [&](In in) { return conv2d(in[0], in[1]); });
      const NDArray one = leaf({2, 3, 1, 1}, 4, dtype);
      check_same(
          {one, weight},
          [&](In in) {
            return conv_transpose2d(in[0], in[1], {}, {.stride = stride, .padding = {0, 1}});
          },
          [&](In in) {
            return conv_transpose2d(in[0], in[1], {}, {.padding = {0, 1}});
          });
      check_same(
          {one, weight},
          [&](In in) { return conv_transpose2d(in[0], in[1], {}, {.stride = stride, .output_padding = 7}); },
          [&](In in) { return conv_transpose2d(in[0], in[1], {}, {.stride = 8, .output_padding = 7}); });
    }
}

TEST_CASE("dilations and paddings that oneDNN does not take are computed in f32 too") {
  using In = const std::vector<NDArray>&;
  const NDArray x = leaf({1, 1, 5}, 1, DType::f32), weight = leaf({1, 1, 2}, 2, DType::f32);
  for (const std::int64_t far : {std::int64_t{1} << 21, std::int64_t{1} << 30, std::int64_t{1} << 32}) {
    CAPTURE(far);
    // The only window has its second element at the first of x, the first one in the padding.
    check_same(
        {x, weight},
        [&](In in) { return conv1d(in[0], in[1], {}, {.stride = kMost, .padding = far, .dilation = far}); },
        [](In in) {
          return slice(in[0], 2, {0, 1}) * slice(in[1], 2, {1, 2});
        });
  }
}

TEST_CASE("the divisor of a mean may have more than 64 bits") {
  constexpr std::int64_t kSize = std::int64_t{1} << 22;
  NDArray x = ones({1, 1, 2, 2, 2}, DType::f64);
  set_requires_grad(x);
  const NDArray y = avg_pool3d(x, {.kernel = kSize, .stride = kSize, .padding = kSize / 2});
  CHECK(y.to_vector<double>() == Doubles{std::ldexp(8, -66)});
  backward(y);
  CHECK(grad(x).to_vector<double>() == Doubles(8, std::ldexp(1, -66)));
}

TEST_CASE("gradients with a graph are computed of what needs them alone") {
  const NDArray weight = leaf({2, 1, 3}, 2, DType::f64);
  const auto work = [&](const NDArray& x, const std::vector<NDArray>& of) {
    const NDArray y = sum(conv1d(x, weight, {}, {.padding = 1}));
    const MultiplyAdds counted;
    (void)grad({y}, of, {.create_graph = true});
    return counted.count();
  };
  const NDArray constant = ones({1, 1, 4}, DType::f64), x = leaf({1, 1, 4}, 1, DType::f64);
  CHECK(work(constant, {weight}) == 24);
  CHECK(work(x, {x, weight}) == 48);
}

TEST_CASE("the count of multiply-adds stops at the largest number") {
  const MultiplyAdds counted;
  MultiplyAdds::add(kMost);
  MultiplyAdds::add(kMost);
  CHECK(counted.count() == kMost);
}

TEST_CASE("second gradients of max pooling of an empty batch need no memory for its windows") {
  NDArray x = zeros({0, 1, std::int64_t{1} << 40}, DType::f32);
  set_requires_grad(x);
  const NDArray y = max_pool1d(x, {.kernel = 2});
  const NDArray first = grad({sum(y * y)}, {x}, {.create_graph = true})[0];
  CHECK(first.shape() == x.shape());
}
