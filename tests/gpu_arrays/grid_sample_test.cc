// Sampling at places of a grid and its gradients on a GPU. Sums have the CPU's order; the CPU may round a product and a sum at once.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/elementwise.h>
#include <heddle/reduce.h>
#include <heddle/resample.h>

#include "near_sum.h"
#include "problems.h"

using namespace heddle;
using namespace heddle::test;

namespace {

// Numbers of -most to most.
NDArray numbers(Random& random, const Shape& shape, DType dtype, double most) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < element_count(shape); ++i)
    values.push_back(static_cast<double>(static_cast<std::int64_t>(random())) * 0x1p-63 * most);
  return array(values, shape).astype(dtype);
}

struct Case {
  Shape x, grid;
};
const std::vector<Case> kCases = {{{2, 3, 5, 7}, {2, 4, 3, 2}},
                                  {{1, 17, 6, 4}, {1, 9, 5, 2}},  // more channels than a thread has
                                  {{1, 1, 1, 1}, {1, 33, 2, 2}},  // all places at one element
                                  {{3, 2, 4, 3, 5}, {3, 2, 3, 4, 3}},
                                  {{1, 9, 1, 6, 2}, {1, 5, 1, 7, 3}}};

constexpr Interpolation kModes[] = {Interpolation::linear, Interpolation::nearest, Interpolation::cubic};
constexpr GridPadding kPaddings[] = {GridPadding::zeros, GridPadding::border, GridPadding::reflection};

template <class F> void for_each_option(const F& f) {
  for (const Interpolation mode : kModes)
    for (const GridPadding padding : kPaddings)
      for (const bool align_corners : {false, true})
        f(GridSampleOptions{.mode = mode, .padding = padding, .align_corners = align_corners});
}

TEST_CASE("grid_sample and its gradients on a GPU have the values of the CPU") {
  Random random(1);
  int number = 0;
  for (const Case& one : kCases) {
    for_each_option([&](const GridSampleOptions& options) {
      if (options.mode == Interpolation::cubic && one.x.size() == 5) return;
      const DType dtype = std::vector{DType::f32, DType::f64, DType::f16}[number % 3];
      CAPTURE(number++);
      CHECK(same_gradients([&](const auto& in) { return grid_sample(in[0], in[1], options); },
                           {numbers(random, one.x, dtype, 4), numbers(random, one.grid, dtype, 1.4)}, 8));
    });
  }
  CHECK(problems() == "");
}

TEST_CASE("grid_sample on a GPU takes any coordinates, and arrays without elements") {
  const std::vector<double> places = {NAN,  0.0,   -1, 1,   INFINITY, -INFINITY,
                                      1e30, -1e30, -1, NAN, 1e-40,    -0.0};
  for_each_option([&](const GridSampleOptions& options) {
    const NDArray grid = array(places, {1, 3, 2, 2}).astype(DType::f32),
                  x = (arange(24, DType::f32) - 7).view_as({1, 2, 3, 4});
    CHECK(near_sum(grid_sample(x, grid, options),
                   grid_sample(x.copy_to(gpu(0)), grid.copy_to(gpu(0)), options), 1e-6));
  });
  const auto sampled = [](const std::vector<NDArray>& in) { return grid_sample(in[0], in[1], {}); };
  CHECK(same_gradients(sampled, {zeros({2, 3, 4, 5}), zeros({2, 0, 3, 2})}));
  CHECK(same_gradients(sampled, {zeros({2, 0, 4, 5}), zeros({2, 3, 3, 2})}));
  CHECK(same_gradients(sampled, {zeros({0, 3, 4, 5}), zeros({0, 3, 3, 2})}));
  CHECK(problems() == "");
}

TEST_CASE("gradients of gradients of grid_sample on a GPU are near the CPU's") {
  for (const Interpolation mode : kModes) {
    const auto run = [&](Device device) {
      Random random(3);
      NDArray x = numbers(random, {1, 2, 4, 5}, DType::f64, 2).copy_to(device),
              grid = numbers(random, {1, 3, 3, 2}, DType::f64, 0.9).copy_to(device);
      x.set_requires_grad();
      grid.set_requires_grad();
      const NDArray y = sum(square(grid_sample(x, grid, {.mode = mode})));
      const auto first = heddle::grad(std::vector{y}, std::vector{x, grid}, {.create_graph = true});
      sum(square(first[0]) * 2).backward();
      return std::vector{x.grad(), grid.grad()};
    };
    const auto here = run(cpu()), there = run(gpu(0));
    for (std::size_t i = 0; i < here.size(); ++i) CHECK(near_sum(here[i], there[i], 1e-12));
  }
  CHECK(problems() == "");
}

}  // namespace
