#include <gradient_check.h>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/error.h>
#include <heddle/ops.h>
#include <heddle/random.h>

namespace heddle {

using testing::check_gradients;

namespace {

NDArray values(Shape shape) { return Generator(3).uniform(shape, -2, 2, DType::f64); }

using ReduceCase = NDArray (*)(const NDArray&, Dims, bool, Where);

}  // namespace

TEST_CASE("gradients of reductions") {
  for (ReduceCase f : {ReduceCase(sum), ReduceCase(mean), ReduceCase(max), ReduceCase(min)}) {
    for (bool keepdims : {false, true}) {
      for (const Dims& axes : {Dims{}, Dims{0}, Dims{1}, Dims{-1}, Dims{0, 2}, Dims{2, 0, 1}}) {
        check_gradients([=](const auto& x) { return f(x[0], axes, keepdims, Where::current()); },
                        {values({2, 3, 4})});
      }
    }
    check_gradients([=](const auto& x) { return f(x[0], {}, false, Where::current()); }, {values({})});
    check_gradients([=](const auto& x) { return f(transpose(x[0]), {1}, false, Where::current()); },
                    {values({3, 4})});
    check_gradients([=](const auto& x) { return f(x[0], {1}, false, Where::current()); }, {values({0, 3})});
  }
  check_gradients([](const auto& x) { return sum(x[0], {0}); }, {values({0, 3})});
}

TEST_CASE("ties share the gradient of max") {
  NDArray x = array<double>({1, 3, 3, 3}, {2, 2});
  set_requires_grad(x);
  backward(max(x) * 6);
  CHECK(grad(x).to_vector<double>() == std::vector<double>{0, 2, 2, 2});
  clear_grad(x);
  backward(sum(min(x, {1})));
  CHECK(grad(x).to_vector<double>() == std::vector<double>{1, 0, 0.5, 0.5});
}

TEST_CASE("f32 sums are as good as f64's") {
  const NDArray x = full({3000000}, 0.1f);
  const double each = static_cast<double>(0.1f);
  CHECK(sum(x).item<float>() == static_cast<float>(3000000 * each));
  CHECK(mean(x).item<float>() == 0.1f);
  CHECK(sum(full({100000, 3}, 0.1f), {0}).to_vector<float>()[1] == static_cast<float>(100000 * each));
}

TEST_CASE("bad axes are found at the call") {
  const NDArray x = zeros({2, 3});
  CHECK_THROWS_WITH_AS(sum(x, {0, -2}), "sum: axis -2 is given twice in (0, -2)", InvalidArgument);
  CHECK_THROWS_AS(mean(x, {2}), InvalidArgument);
  CHECK_THROWS_AS(argmax(x, 2), InvalidArgument);
  CHECK_THROWS_AS(argmax(zeros({}), 0), InvalidArgument);
  CHECK_THROWS_AS(sum(NDArray()), InvalidArgument);
}

TEST_CASE("max of nothing is found at the call") {
  CHECK_THROWS_WITH_AS(max(zeros({0})), "max: nothing to choose from in shape (0,)", InvalidArgument);
  CHECK_THROWS_AS(min(zeros({0, 3}), {0}), InvalidArgument);
  CHECK_THROWS_WITH_AS(argmax(zeros({0, 3}), 0), "argmax: axis 0 of shape (0, 3) is empty", InvalidArgument);
  CHECK(max(zeros({0, 3}), {1}).shape() == Shape{0});
}

}  // namespace heddle
