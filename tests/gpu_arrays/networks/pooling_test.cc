// Pooling and its gradients on a GPU have the CPU's bits: sums have one order on both.
#include <functional>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/pooling.h>

#include "compare.h"
#include "problems.h"

using namespace heddle;
using namespace heddle::test;

namespace {

using Call = std::function<NDArray(const NDArray&)>;

constexpr DType kFloating[] = {DType::f32, DType::f64, DType::f16, DType::bf16};

// Numbers from -50 to 50, many of them equal to others; NaN and infinities if `special`.
NDArray values(Random& random, const Shape& shape, DType dtype, bool special) {
  if (special) return random_values(random, shape, dtype);
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < element_count(shape); ++i)
    numbers.push_back(static_cast<double>(static_cast<std::int64_t>(random() % 2001) - 1000) / 19);
  return array(numbers, shape).astype(dtype);
}

void compare_pool(const Call& call, const Shape& shape) {
  std::uint64_t seed = 0;
  for (const DType dtype : kFloating) {
    for (const bool special : {false, true}) {
      Random random(++seed);
      CAPTURE(name_of(dtype));
      CAPTURE(special);
      NDArray here = values(random, shape, dtype, special), there = here.copy_to(gpu(0));
      here.set_requires_grad();
      there.set_requires_grad();
      const NDArray y = call(here), z = call(there);
      CHECK(same_bits(y.detach(), z.detach()));
      const NDArray g = values(random, y.shape(), dtype, false);
      y.backward(g);
      z.backward(g.copy_to(gpu(0)));
      CHECK(same_bits(here.grad(), there.grad()));
    }
  }
}

TEST_CASE("max_pool on a GPU has the values of the CPU") {
  compare_pool([](const NDArray& x) { return max_pool1d(x, {3, 1}); }, {2, 3, 17});
  compare_pool([](const NDArray& x) { return max_pool1d(x, {4, 3, 2, true, 1, true}); }, {1, 2, 21});
  compare_pool([](const NDArray& x) { return max_pool2d(x); }, {2, 3, 9, 10});  // 2 * 2 without overlap
  compare_pool(
      [](const NDArray& x) {
        return max_pool2d(x, {{3, 2}, {1, 2}, 1, true, {2, 1}});
      },
      {1, 4, 9, 11});
  compare_pool(
      [](const NDArray& x) {
        return max_pool2d(x, {17, 3, 4});
      },
      {1, 1, 20, 20});  // over 256 places
  compare_pool([](const NDArray& x) { return max_pool3d(x, {2, 1}); }, {1, 2, 4, 5, 6});
  compare_pool([](const NDArray& x) { return adaptive_max_pool2d(x, {3, 4}); }, {2, 2, 7, 10});
  compare_pool([](const NDArray& x) { return adaptive_max_pool1d(x, 7); }, {2, 2, 5});
  CHECK(problems() == "");
}

TEST_CASE("avg_pool on a GPU has the values of the CPU") {
  compare_pool([](const NDArray& x) { return avg_pool1d(x, {3, 1}); }, {2, 3, 17});
  compare_pool([](const NDArray& x) { return avg_pool1d(x, {4, 3, 2, false, 1, true}); }, {1, 2, 21});
  compare_pool([](const NDArray& x) { return avg_pool2d(x); }, {2, 3, 9, 10});
  compare_pool([](const NDArray& x) { return avg_pool2d(x, {{3, 2}, {1, 2}, 1, false}); }, {1, 4, 9, 11});
  compare_pool([](const NDArray& x) { return avg_pool2d(x, {{12, 13}, {5, 4}}); }, {1, 1, 25, 30});
  compare_pool([](const NDArray& x) { return avg_pool2d(x, {{7, 20}, 20}); }, {1, 1, 15, 20});
  compare_pool([](const NDArray& x) { return avg_pool3d(x, {2, 1}); }, {1, 2, 4, 5, 6});
  compare_pool([](const NDArray& x) { return adaptive_avg_pool2d(x, 1); }, {2, 2, 30, 41});
  compare_pool([](const NDArray& x) { return adaptive_avg_pool2d(x, {3, 4}); }, {2, 2, 7, 10});
  compare_pool([](const NDArray& x) { return adaptive_avg_pool1d(x, 7); }, {2, 2, 5});
  CHECK(problems() == "");
}

TEST_CASE("means of whole planes on a GPU have the values of the CPU") {
  const auto mean = [](const NDArray& x) { return adaptive_avg_pool2d(x, 1); };
  for (const Shape& shape : {Shape{3, 11, 7, 7},
                             {1, 1, 1, 1},
                             {2, 5, 8, 16},
                             {1, 3, 3, 43},
                             {2, 9, 16, 17},
                             {1, 1, 1, 257},
                             {1, 2, 5, 103},
                             {1, 1, 70, 71},
                             {1, 2, 100, 121}})
    compare_pool(mean, shape);
  compare_pool([](const NDArray& x) { return adaptive_avg_pool3d(x, 1); }, {1, 3, 5, 9, 11});
  compare_pool([](const NDArray& x) { return avg_pool2d(x, {{17, 14}, 1, {3, 1}}); }, {2, 2, 11, 12});
  compare_pool([](const NDArray& x) { return avg_pool2d(x, {{16, 14}, 1, {3, 1}, false}); }, {2, 2, 10, 12});
  compare_pool(
      [](const NDArray& x) {
        return avg_pool2d(x, {{9, 12}, {5, 1}, {2, 0}});
      },
      {2, 2, 8, 12});  // 7 rows of 8
  CHECK(problems() == "");
}

TEST_CASE("pooling of no images on a GPU") {
  const NDArray x = zeros({0, 3, 6, 6}, DType::f32, gpu(0));
  CHECK(max_pool2d(x).shape() == Shape{0, 3, 3, 3});
  CHECK(avg_pool2d(x).shape() == Shape{0, 3, 3, 3});
  CHECK(problems() == "");
}

}  // namespace
