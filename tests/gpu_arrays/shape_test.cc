// Operators on shapes are views and copies, which GPUs have; tril and triu have a kernel.
#include <functional>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/elementwise.h>
#include <heddle/rearrange.h>
#include <heddle/shape_ops.h>

#include "compare.h"
#include "problems.h"

using namespace heddle;
using namespace heddle::test;

namespace {

TEST_CASE("tril and triu keep the CPU's elements") {
  for (int seed = 0; seed < 39; ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    CAPTURE(seed);
    const Shape shapes[] = {{7, 7}, {3, 40}, {40, 3}, {2, 3, 5, 4}, {33, 1}, {0, 4}};
    const Pair x = random_pair(random, shapes[random() % std::size(shapes)],
                               kAllDTypes[static_cast<std::size_t>(seed) % std::size(kAllDTypes)]);
    const auto k = static_cast<std::int64_t>(random() % 9) - 4;
    CHECK(same_bits(tril(x.here, k), tril(x.there, k)));
    CHECK(same_bits(triu(x.here, k), triu(x.there, k)));
  }
  CHECK(problems() == "");
}

TEST_CASE("joining, splitting, padding, repeating and reordering work on a GPU, with their gradients") {
  using Call = std::function<NDArray(const NDArray&)>;
  const std::vector<Call> calls = {[](const NDArray& x) {
                                     return concat({x, x * 2}, 1);
                                   },
                                   [](const NDArray& x) {
                                     return stack({x, x}, 1);
                                   },
                                   [](const NDArray& x) { return split(x, 2, 1)[1]; },
                                   [](const NDArray& x) { return pad(x, {1}, {2}); },
                                   [](const NDArray& x) {
                                     return pad(x, {2, 1}, {1, 3}, PadMode::reflect);
                                   },
                                   [](const NDArray& x) {
                                     return pad(x, {2, 1}, {1, 3}, PadMode::edge);
                                   },
                                   [](const NDArray& x) {
                                     return pad(x, {0, 7}, {0, 3}, PadMode::wrap);
                                   },
                                   [](const NDArray& x) { return roll(x, {3}, {1}); },
                                   [](const NDArray& x) { return roll(x, {-2}); },
                                   [](const NDArray& x) { return flip(x); },
                                   [](const NDArray& x) { return rot90(x); },
                                   [](const NDArray& x) {
                                     return repeat(x, std::vector<std::int64_t>{1, 0, 2, 1, 3}, 0);
                                   },
                                   [](const NDArray& x) { return diagonal(x, 1); },
                                   [](const NDArray& x) { return diag(diag(x)); },
                                   [](const NDArray& x) { return tril(x, -1); },
                                   [](const NDArray& x) { return moveaxis(x, {0}, {1}); },
                                   [](const NDArray& x) {
                                     return block({{x, x}, {x, x}});
                                   }};
  for (std::size_t i = 0; i < calls.size(); ++i) {
    CAPTURE(i);
    std::vector<NDArray> results, gradients;
    for (const Device device : {cpu(), gpu(0)}) {
      NDArray x = (arange(30, DType::f32) / 7 - 2).reshape({5, 6}).copy_to(device);
      x.set_requires_grad();
      const NDArray y = calls[i](x);
      y.backward((arange(y.size(), DType::f32) / 3).reshape(y.shape()).copy_to(device));
      results.push_back(y.detach()), gradients.push_back(x.grad());
    }
    CHECK(same_bits(results[0], results[1]));
    CHECK(same_bits(gradients[0], gradients[1]));
  }
  CHECK(problems() == "");
}

TEST_CASE("repeated elements are the CPU's") {
  Random random(1);
  const Pair x = random_pair(random, {5, 6}, DType::f64);
  CHECK(same_bits(tile(x.here, {2, 3}), tile(x.there, {2, 3})));
  CHECK(same_bits(repeat(x.here, 3, 0), repeat(x.there, 3, 0)));
  CHECK(same_bits(repeat(x.here, 2), repeat(x.there, 2)));
  CHECK(problems() == "");
}

}  // namespace
