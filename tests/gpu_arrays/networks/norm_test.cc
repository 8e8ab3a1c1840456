// Normalisations on a GPU, their statistics and gradients have the values of the CPU but for roundings.
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/elementwise.h>
#include <heddle/ndarray.h>
#include <heddle/norms.h>

#include "near_sum.h"
#include "problems.h"

using namespace heddle;
using namespace heddle::test;

namespace {

using Arrays = std::vector<NDArray>;
constexpr DType kFloating[] = {DType::f32, DType::f64, DType::f16, DType::bf16};
constexpr double kFactor = 10;  // of rounding_of(): statistics are sums of squares, and divide

struct Problem {
  Shape shape, weights;
  int axes = 1;
};

Arrays arguments(Random& random, const Problem& problem, DType dtype) {
  return {small_numbers(random, problem.shape, dtype), small_numbers(random, problem.weights, dtype),
          small_numbers(random, problem.weights, dtype)};
}

TEST_CASE("layer_norm and rms_norm on a GPU are the CPU's but for roundings") {
  for (const Problem& problem :
       {Problem{{3, 7}, {7}}, Problem{{40, 33}, {33}}, Problem{{2, 1024}, {1024}}, Problem{{2, 1500}, {1500}},
        Problem{{600, 4}, {4}}, Problem{{2, 3, 5, 4}, {5, 4}, 2}, Problem{{0, 5}, {5}}}) {
    for (const DType dtype : kFloating) {
      CAPTURE(problem.shape.to_string());
      CAPTURE(name_of(dtype));
      Random random(static_cast<std::uint64_t>(problem.shape.size()));
      const Arrays given = arguments(random, problem, dtype);
      const int axes = problem.axes;
      CHECK(same_gradients([=](const Arrays& a) { return layer_norm(a[0], a[1], a[2], axes); }, given,
                           kFactor));
      CHECK(same_gradients([=](const Arrays& a) { return layer_norm(a[0], {}, {}, axes); }, {given[0]},
                           kFactor));
      CHECK(same_gradients([=](const Arrays& a) { return rms_norm(a[0], a[1], axes); }, {given[0], given[1]},
                           kFactor));
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("group_norm on a GPU is the CPU's but for roundings") {
  for (const Problem& problem :
       {Problem{{3, 4}, {4}, 2}, Problem{{2, 6, 5, 7}, {6}, 3}, Problem{{2, 4, 300}, {4}, 1},
        Problem{{5, 3, 2}, {3}, 3}, Problem{{200, 2, 3}, {2}, 1}}) {
    for (const DType dtype : kFloating) {
      CAPTURE(problem.shape.to_string());
      CAPTURE(name_of(dtype));
      Random random(static_cast<std::uint64_t>(problem.shape.size()));
      const int groups = problem.axes;
      CHECK(same_gradients([=](const Arrays& a) { return group_norm(a[0], groups, a[1], a[2]); },
                           arguments(random, problem, dtype), kFactor));
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("few long rows are cut into parts on a GPU") {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16}) {
    CAPTURE(name_of(dtype));
    Random random(8);
    const Arrays given = arguments(random, {{2, 17000}, {17000}}, dtype);
    CHECK(same_gradients([](const Arrays& a) { return layer_norm(a[0], a[1], a[2], 1); }, given, kFactor));
    CHECK(same_gradients([](const Arrays& a) { return layer_norm(a[0], {}, {}, 1); }, {given[0]}, kFactor));
    CHECK(same_gradients([](const Arrays& a) { return rms_norm(a[0], a[1], 1); }, {given[0], given[1]},
                         kFactor));
    CHECK(same_gradients([](const Arrays& a) { return group_norm(a[0], 2, a[1], a[2]); },
                         arguments(random, {{2, 4, 8500}, {4}}, dtype), kFactor));
  }
  CHECK(problems() == "");
}

TEST_CASE("batch_norm on a GPU, its statistics and its gradients are the CPU's but for roundings") {
  for (const Problem& problem :
       {Problem{{8, 4}, {4}}, Problem{{300, 40}, {40}}, Problem{{5000, 3}, {3}}, Problem{{3, 4, 5, 6}, {4}},
        Problem{{2, 2, 2100}, {2}}, Problem{{3, 2, 4000}, {2}}}) {
    for (const DType dtype : kFloating) {
      CAPTURE(problem.shape.to_string());
      CAPTURE(name_of(dtype));
      Random random(static_cast<std::uint64_t>(problem.shape.size()));
      const Arrays given = arguments(random, problem, dtype);
      CHECK(same_gradients([](const Arrays& a) { return batch_norm(a[0], a[1], a[2])[0]; }, given, kFactor));
      const auto here = batch_norm(given[0]), there = batch_norm(given[0].copy_to(gpu(0)));
      CHECK(near_sum(here[1], there[1], kFactor * rounding_of(dtype)));
      CHECK(near_sum(here[2], there[2], kFactor * rounding_of(dtype)));
    }
  }
  const NDArray none = zeros({0, 3});
  const auto here = batch_norm(none), there = batch_norm(none.copy_to(gpu(0)));
  CHECK(same_bits(here[1], there[1]));
  CHECK(same_bits(here[2], there[2]));
  CHECK(problems() == "");
}

TEST_CASE("a normalisation on a GPU does not make the host wait") {
  Random random(1);
  const NDArray x = small_numbers(random, {4, 3, 50}, DType::f32).copy_to(gpu(0)),
                w = ones({3}, DType::f32, gpu(0));
  x.wait();
  w.wait();
  const std::uint64_t waits = host_waits();
  const NDArray y = batch_norm(x, w)[0], z = group_norm(x, 3, w);
  CHECK(host_waits() == waits);
  CHECK(y.device() == z.device());
  CHECK(problems() == "");
}

}  // namespace
