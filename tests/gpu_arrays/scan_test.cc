// Scans on a GPU have the values of the CPU: the bits where nothing is rounded or elements are joined in the CPU's order.
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/elementwise.h>
#include <heddle/ndarray.h>
#include <heddle/scan.h>

#include "near_sum.h"
#include "problems.h"

using namespace heddle;
using namespace heddle::test;

namespace {

using Arrays = std::vector<NDArray>;

int random_axis(Random& random, const NDArray& x) { return static_cast<int>(random() % x.ndim()); }

TEST_CASE("scans on a GPU are the CPU's") {
  for (int seed = 0; seed < 52; ++seed) {
    CAPTURE(seed);
    Random random(static_cast<std::uint64_t>(seed));
    const Shape shape = random_shape(random);
    if (shape.size() == 0) continue;
    const DType dtype = kAllDTypes[static_cast<std::size_t>(seed) % std::size(kAllDTypes)];
    const Pair x = random_pair(random, shape, dtype), small = small_pair(random, shape, dtype);
    const int axis = random_axis(random, x.here);
    CHECK(compare([=](const NDArray& one) { return cummax(one, axis); }, x, true));
    CHECK(compare([=](const NDArray& one) { return cummin(one, axis); }, x, true));
    CHECK(compare([=](const NDArray& one) { return cumprod(one, axis); }, x, true));
    CHECK(compare([=](const NDArray& one) { return cumsum(one, axis); }, small, true));  // no roundings
    CHECK(near_sum(cumsum(x.here, axis), cumsum(x.there, axis), rounding_of(x.here.dtype())));
  }
  CHECK(problems() == "");
}

TEST_CASE("long scans on a GPU are cut into parts") {
  struct Case {
    Shape shape;
    int axis;
  };
  for (const Case& c : {Case{{20003}, 0}, Case{{2, 9001}, 1}, Case{{9001, 2}, 0}, Case{{9001, 2}, 1},
                        Case{{700, 60}, 0}, Case{{70000, 2}, 0}, Case{{3, 300, 5}, 1}}) {
    CAPTURE(c.shape.to_string());
    for (const DType dtype : {DType::f32, DType::i64}) {
      Random random(static_cast<std::uint64_t>(c.shape[0]));
      const NDArray x = small_numbers(random, c.shape, dtype), y = x.copy_to(gpu(0));
      CHECK(same_bits(cumsum(x, c.axis), cumsum(y, c.axis)));
      CHECK(same_bits(cummax(x, c.axis), cummax(y, c.axis)));
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("gradients of scans are computed on the GPU") {
  Random random(5);
  const NDArray x = small_numbers(random, {9, 40, 3}, DType::f64),
                y = small_numbers(random, {40, 30}, DType::f32);
  for (int axis = 0; axis < 3; ++axis) {
    CHECK(same_gradients([=](const Arrays& a) { return cumsum(a[0], axis); }, {x}));
    CHECK(same_gradients([=](const Arrays& a) { return cumprod(a[0], axis); }, {x}));
  }
  CHECK(same_gradients([](const Arrays& a) { return cumprod(a[0], 1); }, {y}));
  CHECK(same_gradients([](const Arrays& a) { return cumprod(a[0], 0); }, {y + 5}));
  CHECK(problems() == "");
}

}  // namespace
