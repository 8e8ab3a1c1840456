// Reductions on a GPU have the values of the CPU: dtypes, shapes, strides and axes are drawn.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/elementwise.h>
#include <heddle/ndarray.h>
#include <heddle/reduce.h>
#include <heddle/statistics.h>

#include "near_sum.h"
#include "problems.h"

using namespace heddle;
using namespace heddle::test;

namespace {

struct Reduce {
  std::string name;
  std::function<NDArray(const NDArray&, const Dims&, bool)> call;
};

#define HEDDLE_REDUCTION(name)                                                               \
  Reduce {                                                                                   \
#name, [](const NDArray& x, const Dims& axes, bool keep) { return name(x, axes, keep); } \
  }

const std::vector<Reduce> kSums = {
    HEDDLE_REDUCTION(sum), HEDDLE_REDUCTION(mean), HEDDLE_REDUCTION(prod),
    Reduce{"norm", [](const NDArray& x, const Dims& axes, bool keep) { return norm(x, 2, axes, keep); }}};
const std::vector<Reduce> kExact = {HEDDLE_REDUCTION(max), HEDDLE_REDUCTION(min), HEDDLE_REDUCTION(any),
                                    HEDDLE_REDUCTION(all), HEDDLE_REDUCTION(count_nonzero)};

Dims random_axes(Random& random, int dims) {
  Dims axes;
  for (int axis = 0; axis < dims; ++axis)
    if (random() % 2) axes.push_back(axis);
  return axes;
}

// Calls `reduce` on both devices and compares; the CPU's refusals have to be the GPU's.
template <class Same>
bool agrees(const Reduce& reduce, const Pair& x, const Dims& axes, bool keep, const Same& same) {
  NDArray here;
  std::string refusal;
  try {
    here = reduce.call(x.here, axes, keep);
  } catch (const InvalidArgument& error) {
    refusal = error.what();
  }
  if (!refusal.empty()) {
    CHECK_THROWS_WITH_AS(reduce.call(x.there, axes, keep), refusal.c_str(), InvalidArgument);
    return true;
  }
  return same(here, reduce.call(x.there, axes, keep));
}

TEST_CASE("largest elements and counts on a GPU are the CPU's") {
  for (const Reduce& reduce : kExact) {
    for (int seed = 0; seed < 26; ++seed) {
      CAPTURE(reduce.name);
      CAPTURE(seed);
      Random random(static_cast<std::uint64_t>(seed));
      const Shape shape = random_shape(random);
      const DType dtype = kAllDTypes[static_cast<std::size_t>(seed) % std::size(kAllDTypes)];
      const Pair x = random_pair(random, shape, dtype);
      // Equal values: the sign of a largest 0 depends on the order.
      CHECK(agrees(reduce, x, random_axes(random, x.here.ndim()), random() % 2,
                   [](const NDArray& a, const NDArray& b) {
                     return a.dtype() == b.dtype() && (is_floating(a.dtype()) ? near(a, b) : same_bits(a, b));
                   }));
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("sums on a GPU are the CPU's but for roundings") {
  for (const Reduce& reduce : kSums) {
    for (int seed = 0; seed < 26; ++seed) {
      CAPTURE(reduce.name);
      CAPTURE(seed);
      Random random(static_cast<std::uint64_t>(seed));
      const Shape shape = random_shape(random);
      const DType dtype = kAllDTypes[static_cast<std::size_t>(seed) % std::size(kAllDTypes)];
      const Pair x = small_pair(random, shape, dtype);
      const bool exact = !is_floating(dtype) && (reduce.name == "sum" || reduce.name == "prod");
      CHECK(agrees(reduce, x, random_axes(random, shape.size()), random() % 2,
                   [&](const NDArray& a, const NDArray& b) {
                     return exact ? same_bits(a, b) : near_sum(a, b, rounding_of(a.dtype()));
                   }));
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("dense arrays of all sizes, from any element on, are reduced") {
  for (const DType dtype : kAllDTypes) {
    Random random(static_cast<std::uint64_t>(dtype));
    const NDArray all = random_values(random, {80}, dtype), other = all.copy_to(gpu(0));
    for (const std::int64_t begin : {0, 1, 2, 3, 4}) {
      for (const std::int64_t size : {4, 7, 16, 70}) {
        CAPTURE(name_of(dtype));
        CAPTURE(begin);
        CAPTURE(size);
        const NDArray here = all.slice(0, {.begin = begin, .end = begin + size}),
                      there = other.slice(0, {.begin = begin, .end = begin + size});
        CHECK(same_bits(count_nonzero(here), count_nonzero(there)));
        CHECK(same_bits(argmax(here), argmax(there)));
        CHECK(same_bits(max(here), max(there)));
        if (!is_floating(dtype)) CHECK(same_bits(sum(here), sum(there)));
      }
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("places of largest elements on a GPU are the CPU's") {
  for (int seed = 0; seed < 52; ++seed) {
    CAPTURE(seed);
    Random random(static_cast<std::uint64_t>(seed));
    const DType dtype = kAllDTypes[static_cast<std::size_t>(seed) % std::size(kAllDTypes)];
    const Pair x = random_pair(random, random_shape(random), dtype);
    const std::optional<int> axis = x.here.ndim() > 0 && random() % 4
                                        ? std::optional<int>(static_cast<int>(random() % x.here.ndim()))
                                        : std::nullopt;
    CHECK(compare([&](const NDArray& one) { return argmax(one, axis); }, x, true));
    CHECK(compare([&](const NDArray& one) { return argmin(one, axis); }, x, true));
  }
  CHECK(problems() == "");
}

TEST_CASE("long reductions on a GPU are cut into parts") {
  struct Case {
    Shape shape;
    Dims axes;
  };
  for (const Case& c :
       {Case{{70001}, {}}, Case{{2, 20003}, {1}}, Case{{20003, 2}, {0}}, Case{{5000, 40}, {0}},
        Case{{3, 70, 301}, {0, 2}}, Case{{300, 5, 33}, {0}}, Case{{3, 4100}, {1}}, Case{{1, 150000}, {0}}}) {
    CAPTURE(c.shape.to_string());
    for (const DType dtype : {DType::f32, DType::i16}) {
      Random random(static_cast<std::uint64_t>(c.shape[0]));
      const NDArray x = small_numbers(random, c.shape, dtype), y = x.copy_to(gpu(0));
      CHECK(same_bits(sum(x, c.axes), sum(y, c.axes)));  // no roundings
      CHECK(same_bits(max(x, c.axes), max(y, c.axes)));
      CHECK(same_bits(count_nonzero(x, c.axes), count_nonzero(y, c.axes)));
      if (c.axes.size() == 1) {
        CHECK(same_bits(argmax(x, static_cast<int>(c.axes[0])), argmax(y, static_cast<int>(c.axes[0]))));
      } else {
        CHECK(same_bits(argmin(x), argmin(y)));
      }
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("means and norms on a GPU do not leave the range of f64") {
  for (const double scale : {1e308, 1e300, 1e-300, 1e-310, 1.0}) {
    const NDArray x = full({3, 100}, scale, DType::f64), y = x.copy_to(gpu(0));
    CAPTURE(scale);
    CHECK(near(mean(x), mean(y)));
    CHECK(near(norm(x, 2, {0}), norm(y, 2, {0})));
    CHECK(near(norm(x), norm(y)));
  }
  CHECK(problems() == "");
}

TEST_CASE("reductions of nothing on a GPU") {
  const NDArray x = zeros({3, 0}), y = x.copy_to(gpu(0));
  CHECK(same_bits(sum(x, {1}), sum(y, {1})));
  CHECK(same_bits(prod(x), prod(y)));
  CHECK(same_bits(mean(x, {1}), mean(y, {1})));
  CHECK(same_bits(all(x), all(y)));
  CHECK(same_bits(any(x, {0}), any(y, {0})));
  CHECK_THROWS_WITH_AS(max(y), doctest::Contains("max: nothing to choose from in shape (3, 0)"),
                       InvalidArgument);
  CHECK_THROWS_WITH_AS(argmax(y, 1), doctest::Contains("argmax: axis 1 of shape (3, 0) is empty"),
                       InvalidArgument);
  CHECK(problems() == "");
}

TEST_CASE("gradients of reductions, and of what is broadcast, are computed on the GPU") {
  Random random(3);
  const NDArray x = small_numbers(random, {5, 6, 7}, DType::f32),
                w = small_numbers(random, {6, 1}, DType::f32),
                wide = small_numbers(random, {5, 6, 7}, DType::f64) + 5;
  using Arrays = std::vector<NDArray>;
  const std::uint64_t waits = host_waits();
  const NDArray y = x.copy_to(gpu(0));
  (void)sum(y * y, {0});
  CHECK(host_waits() == waits);
  CHECK(same_gradients([](const Arrays& a) { return sum(a[0], {0, 2}) + mean(a[0], {0, 2}); }, {x}));
  CHECK(same_gradients([](const Arrays& a) { return a[0] * a[1] + a[1]; }, {x, w}));
  CHECK(same_gradients([](const Arrays& a) { return max(a[0], {1}) - min(a[0], {1}, false); }, {x}));
  CHECK(same_gradients([](const Arrays& a) { return norm(a[0], 2, {1}); }, {wide}));
  CHECK(same_gradients([](const Arrays& a) { return prod(a[0], {1}); }, {wide}));
  CHECK(same_gradients([](const Arrays& a) { return prod(a[0], {0, 2}); }, {wide}, 10));
  CHECK(same_gradients([](const Arrays& a) { return var(a[0], {0, 2}) + stddev(a[0], {0, 2}); }, {x}));
  CHECK(problems() == "");
}

}  // namespace
