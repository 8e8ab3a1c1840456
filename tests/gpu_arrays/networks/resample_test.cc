// Resampling and its gradients on a GPU. The nearest modes copy; other values are sums of at most 64 products (all of the array for
// the area mode's gradient of one element: 1 / 64 of it), which the CPU may round once each where the GPU rounds twice.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/resample.h>

#include "compare.h"
#include "problems.h"

using namespace heddle;
using namespace heddle::test;

namespace {

NDArray fractions(Random& random, const Shape& shape, DType dtype) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < element_count(shape); ++i)
    values.push_back(static_cast<double>(static_cast<std::int64_t>(random())) * 0x1p-63);
  return array(values, shape).astype(dtype);
}

bool close(const NDArray& here, const NDArray& there) {
  const double most = 64 * 4 * (here.dtype() == DType::f64 ? 0x1p-52 : 0x1p-23);
  const auto a = here.astype(DType::f64).to_vector<double>(),
             b = there.copy_to(cpu()).astype(DType::f64).to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(std::fabs(a[i] - b[i]) <= most)) return false;
  }
  return a.size() == b.size() && there.device() == gpu(0) && here.dtype() == there.dtype();
}

struct Case {
  Shape x;
  InterpolateOptions options;
};
const std::vector<Case> kCases = {
    {{2, 3, 7}, {.size = {15}, .mode = Interpolation::linear}},
    {{2, 1, 9}, {.size = {4}, .mode = Interpolation::linear, .align_corners = true}},
    {{1, 2, 6, 5}, {.size = {13, 4}, .mode = Interpolation::linear}},
    {{1, 2, 6, 5}, {.size = {9, 11}, .mode = Interpolation::cubic}},
    {{1, 2, 6, 5}, {.size = {6, 8}, .mode = Interpolation::cubic, .align_corners = true}},
    {{2, 2, 10, 9}, {.size = {3, 4}, .mode = Interpolation::area}},
    {{1, 2, 3, 4, 5}, {.size = {5, 2, 9}, .mode = Interpolation::linear}},
    {{1, 2, 8, 8}, {.scale = {1.7, 0.6}, .mode = Interpolation::linear}},
    {{1, 2, 8, 9}, {.size = {5, 20}, .mode = Interpolation::nearest}},
    {{1, 2, 8, 9}, {.size = {5, 20}, .mode = Interpolation::nearest_exact}}};

TEST_CASE("interpolate and its gradient on a GPU have the values of the CPU") {
  Random random(1);
  for (std::size_t i = 0; i < kCases.size(); ++i) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      CAPTURE(i);
      CAPTURE(name_of(dtype));
      NDArray here = fractions(random, kCases[i].x, dtype), there = here.copy_to(gpu(0));
      here.set_requires_grad();
      there.set_requires_grad();
      const NDArray y = interpolate(here, kCases[i].options), z = interpolate(there, kCases[i].options);
      CHECK(close(y.detach(), z.detach()));
      const NDArray g = fractions(random, y.shape(), dtype);
      y.backward(g);
      z.backward(g.copy_to(gpu(0)));
      CHECK(close(here.grad(), there.grad()));
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("the nearest modes copy elements of every dtype on a GPU") {
  for (const DType dtype : kAllDTypes) {
    for (const Interpolation mode : {Interpolation::nearest, Interpolation::nearest_exact}) {
      Random random(static_cast<std::uint64_t>(dtype));
      CAPTURE(name_of(dtype));
      const NDArray x = random_values(random, {2, 3, 5, 4}, dtype);
      const InterpolateOptions options{.size = {7, 9}, .mode = mode};
      CHECK(same_bits(interpolate(x, options), interpolate(x.copy_to(gpu(0)), options)));
    }
  }
  CHECK(problems() == "");
}

}  // namespace
