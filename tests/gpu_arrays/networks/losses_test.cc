// Losses on a GPU, which are composed of operators, have the values and gradients of the CPU but for roundings.
#include <vector>

#include <doctest/doctest.h>

#include <heddle/elementwise.h>
#include <heddle/losses.h>
#include <heddle/ndarray.h>
#include <heddle/softmax.h>

#include "near_sum.h"
#include "problems.h"

using namespace heddle;
using namespace heddle::test;

namespace {

using Arrays = std::vector<NDArray>;

TEST_CASE("losses of floating targets on a GPU") {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16}) {
    Random random(static_cast<std::uint64_t>(dtype));
    const NDArray a = small_numbers(random, {20, 6}, dtype), b = small_numbers(random, {20, 6}, dtype),
                  c = small_numbers(random, {20, 6}, dtype), shares = softmax(b, 1);
    for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
      const auto same = [&](auto loss, const NDArray& target) {
        return same_gradients([&](const Arrays& all) { return loss(all[0], all[1], reduction); },
                              {a, target});
      };
      CHECK(same([](auto&... x) { return mse_loss(x...); }, b));
      CHECK(same([](auto&... x) { return l1_loss(x...); }, b));
      CHECK(same([](auto& y, auto& t, auto r) { return hinge_loss(y, t, 1, r); }, b));
      CHECK(same([](auto&... x) { return soft_cross_entropy(x...); }, shares));
      CHECK(same_gradients([&](const Arrays& x) { return triplet_loss(x[0], x[1], x[2], 1, reduction); },
                           {a, b, c}));
    }
  }
  CHECK(problems() == "");
}

}  // namespace
