// Statistics and scans beyond numpy_cases_statistics.py: gradients, infinities, errors.
#include <cmath>
#include <gradient_check.h>
#include <limits>
#include <message_of.h>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/random.h>

namespace heddle {

using test::message_of;
using testing::check_gradients;

namespace {

using Arrays = std::vector<NDArray>;

NDArray values(Shape shape, double low, double high) {
  return Generator(11).uniform(shape, low, high, DType::f64);
}

}  // namespace

TEST_CASE("gradients of statistics") {
  const NDArray x = values({3, 4, 2}, 0.4, 2);
  for (const Dims& axes : {Dims{}, Dims{1}, Dims{0, 2}}) {
    for (const bool keepdims : {false, true}) {
      check_gradients([&](const Arrays& in) { return prod(in[0], axes, keepdims); }, {x});
      check_gradients([&](const Arrays& in) { return var(in[0], axes, 1, keepdims); }, {x});
      check_gradients([&](const Arrays& in) { return stddev(in[0], axes, 0, keepdims); }, {x});
      check_gradients([&](const Arrays& in) { return logsumexp(in[0], axes, keepdims); }, {x});
      check_gradients([&](const Arrays& in) { return nanmean(in[0], axes, keepdims); }, {x});
      check_gradients([&](const Arrays& in) { return nansum(in[0], axes, keepdims); }, {x});
      check_gradients([&](const Arrays& in) { return nanmax(in[0], axes, keepdims); }, {x});
      check_gradients([&](const Arrays& in) { return nanmin(in[0], axes, keepdims); }, {x});
      for (const double p : {1.0, 2.0, 3.0, std::numeric_limits<double>::infinity()})
        check_gradients([&](const Arrays& in) { return norm(in[0], p, axes, keepdims); }, {x});
    }
  }
}

TEST_CASE("gradients of products with zeros") {
  const NDArray none = array<double>({2, 3, 4}), one = array<double>({2, 0, 4}),
                two = array<double>({0, 0, 4});
  for (const NDArray& x : {none, one, two}) {
    check_gradients([](const Arrays& in) { return prod(in[0]); }, {x});
    check_gradients([](const Arrays& in) { return cumprod(in[0]); }, {x});
  }
  const NDArray late = array<double>({3, 2, 0, 5, 0, 7}, {2, 3});
  check_gradients([](const Arrays& in) { return cumprod(in[0], 0); }, {late});
  check_gradients([](const Arrays& in) { return cumprod(in[0], 1); }, {late});
}

TEST_CASE("gradients of scans") {
  const NDArray x = values({3, 4, 2}, 0.4, 2);
  for (const int axis : {0, 1, -1}) {
    check_gradients([=](const Arrays& in) { return cumsum(in[0], axis); }, {x});
    check_gradients([=](const Arrays& in) { return cumprod(in[0], axis); }, {x});
    check_gradients([=](const Arrays& in) { return diff(in[0], 1, axis); }, {x});
  }
}

TEST_CASE("logsumexp of infinities and of nothing") {
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(logsumexp(array<double>({-infinity, -infinity})).item<double>() == -infinity);
  CHECK(logsumexp(array<double>({infinity, 1})).item<double>() == infinity);
  CHECK(logsumexp(array<double>({1000, 1000})).item<double>() == doctest::Approx(1000 + std::log(2.0)));
  CHECK(logsumexp(zeros({2, 0})).item<float>() == -std::numeric_limits<float>::infinity());
  CHECK(logsumexp(zeros({2, 0}), {1}).shape() == Shape{2});
  CHECK(std::isnan(var(array<double>({3}), {}, 1).item<double>()));
}

TEST_CASE("the gradient of a norm at zero is 0; the deviation of halves does not overflow") {
  NDArray x = array<double>({0, 0, 3, 4}, {2, 2});
  set_requires_grad(x);
  backward(norm(x, 2, {1}), ones({2}, DType::f64));
  CHECK(grad(x).to_vector<double>() == std::vector<double>{0, 0, 0.6, 0.8});
  CHECK(stddev(array<float>({0, 1000, 2000}).astype(DType::f16)).astype(DType::f32).item<float>() == 816.5f);
}

TEST_CASE("errors of statistics and scans name the function") {
  const NDArray x = ones({2, 3}), b = ones({2}, DType::boolean);
  const auto says = [](const std::function<void()>& call) { return message_of<InvalidArgument>(call); };
  CHECK(says([&] { prod(x, {2}); }).starts_with("prod: axis 2"));
  CHECK(says([&] { var(x, {0, 0}); }) == "var: axis 0 is given twice in (0, 0)");
  CHECK(says([&] { stddev(x, {2}); }).starts_with("stddev: axis 2"));
  CHECK(says([&] { any(x, {2}); }).starts_with("any: axis 2"));
  CHECK(says([&] { nanmax(x, {2}); }).starts_with("nanmax: axis 2"));
  CHECK(says([&] { cumsum(x, 2); }).starts_with("cumsum: axis 2"));
  CHECK(says([&] { cumsum(ones({})); }).starts_with("cumsum: axis -1"));
  CHECK(says([&] { diff(b); }) == "diff: dtype bool; wanted a number's");
  CHECK(says([&] { diff(x, -1); }) == "diff: n is -1; wanted 0 or more");
  CHECK(says([&] { norm(x, std::nan("")); }) == "norm: p is NaN");
  for (const auto& call : std::vector<std::function<void()>>{
           [] { prod({}); }, [] { var({}); }, [] { stddev({}); }, [] { logsumexp({}); }, [] { norm({}); },
           [] { any({}); }, [] { all({}); }, [] { count_nonzero({}); }, [] { nansum({}); },
           [] { nanmean({}); }, [] { nanmax({}); }, [] { nanmin({}); }, [] { cumsum({}); },
           [] { cumprod({}); }, [] { diff({}); }})
    CHECK(says(call).ends_with(
        ": an array is undefined: made without a shape, moved from, or a gradient before backward()"));
}

TEST_CASE("the gradient of the deviation of equal elements is 0, and so is the second") {
  NDArray x = array<double>({2, 2, 2, 1, 2, 3}, {2, 3});
  set_requires_grad(x);
  const double share = 1 / std::sqrt(6);
  for (const bool create_graph : {false, true}) {
    const NDArray first = grad({sum(stddev(x, {1}))}, {x}, {.create_graph = create_graph})[0];
    const std::vector<double> got = first.to_vector<double>(), expected{0, 0, 0, -share, 0, share};
    for (std::size_t i = 0; i < 6; ++i) CHECK(got[i] == doctest::Approx(expected[i]));
    if (!create_graph) continue;
    const std::vector<double> second = grad({sum(square(first))}, {x})[0].to_vector<double>();
    for (std::size_t i = 0; i < 3; ++i) CHECK(second[i] == 0);
  }
}

}  // namespace heddle
