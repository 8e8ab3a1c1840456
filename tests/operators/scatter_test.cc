// Reads and writes at positions given by index arrays: gradients, repeated positions, halves, errors.
#include <gradient_check.h>
#include <message_of.h>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/random.h>

#include "schedulers.h"

namespace heddle {

using testing::check_gradients;

namespace {

using In = const std::vector<NDArray>&;

// An array of distinct random numbers.
NDArray values(Shape shape, std::uint64_t seed = 5) {
  return Generator(seed).uniform(shape, -2, 2, DType::f64);
}

// An index array in which the positions 2 and 0 occur twice.
NDArray places() { return array<std::int64_t>({0, 2, 2, 1, 0, -1}, {3, 2}); }

std::string refusal(auto&& call) { return test::message_of<InvalidArgument>(call); }

}  // namespace

TEST_CASE("gradients of gather") {
  const NDArray x = values({3, 4});
  for (const int axis : {0, 1}) {
    check_gradients([=](In in) { return square(gather(in[0], in[1], axis)); }, {x, places()});
    check_gradients([=](In in) { return gather(transpose(in[0]), in[1], axis); }, {x, places()});
  }
  check_gradients([](In in) { return take_along_axis(in[0], in[1], 1); }, {x, places()});
  check_gradients([](In in) { return take_along_axis(in[0], in[1], 1); }, {values({1, 4}), places()});
  check_gradients([](In in) { return take_along_axis(in[0], in[1], 0); },
                  {x, array<std::int64_t>({1, 1}, {2, 1})});
}

TEST_CASE("gradients of scatter, where places come twice") {
  const NDArray x = values({3, 4}), source = values({3, 2}, 6);
  for (const auto f : {scatter, scatter_add, scatter_min, scatter_max}) {
    for (const int axis : {0, 1}) {
      const auto written = [=](In in) { return square(f(in[0], in[1], in[2], axis, Where::current())); };
      check_gradients(written, {x, places(), source});
      check_gradients([=](In in) { return f(in[0], in[1], 0.25, axis, Where::current()); }, {x, places()});
      check_gradients([=](In in) { return f(in[1], in[2], in[0], axis, Where::current()); },
                      {values({1}, 7), x.detach(), places()});
    }
  }
  const NDArray rows = array<std::int32_t>({2, 0, 2, -3});
  for (const auto f : {index_add, index_copy}) {
    check_gradients([=](In in) { return f(in[0], in[1], in[2], 0, Where::current()); },
                    {x, rows, values({4, 4})});
    check_gradients([=](In in) { return f(in[0], in[1], in[2], 1, Where::current()); },
                    {x, rows, values({3, 4})});
    check_gradients([=](In in) { return f(in[0], in[1], in[2], 1, Where::current()); },
                    {x, rows, values({4})});
  }
  const NDArray columns = array<std::int64_t>({1, 1, 1, 0});
  for (const bool accumulate : {false, true}) {
    check_gradients(
        [=](In in) {
          return index_put(in[0], {rows, columns}, in[1], accumulate);
        },
        {x, values({4})});
    check_gradients([=](In in) { return index_put(in[0], {rows}, in[1], accumulate); }, {x, values({4})});
  }
  check_gradients([](In in) { return put(in[0], in[1], in[2]); }, {x, places(), source});
}

TEST_CASE("gradients through masks") {
  const NDArray x = values({3, 4}), mask = values({3, 4}, 8) > 0, row = values({4}, 9) > 0;
  check_gradients([](In in) { return square(masked_select(in[0], in[1])); }, {x, mask});
  check_gradients([](In in) { return masked_select(in[0], in[1]); }, {values({4}), mask});
  check_gradients([](In in) { return masked_fill(in[0], in[1], 3); }, {x, row});
  check_gradients([](In in) { return square(masked_scatter(in[0], in[1], in[2])); }, {x, mask, values({13})});
}

TEST_CASE("shared extremes share the gradient") {
  NDArray x = array<double>({1.0, 5.0}), source = array<double>({3.0, 3.0, 5.0});
  set_requires_grad(x);
  set_requires_grad(source);
  backward(scatter_max(x, array<std::int64_t>({0, 0, 1}), source), array<double>({1.0, 1.0}));
  CHECK(grad(x).to_vector<double>() == std::vector{0.0, 0.5});
  CHECK(grad(source).to_vector<double>() == std::vector{0.5, 0.5, 0.5});
}

TEST_CASE("what one place gets is added in the order of the indices, whatever the workers") {
  std::vector<float> expected;
  test::on_every_scheduler([&](Engine& engine) {
    const EngineScope scope(engine);
    Generator generator(4);
    const NDArray source = generator.normal({400, 300}), at = generator.integers({400, 300}, 0, 7);
    const NDArray y = concat({scatter_add(zeros({7, 300}), at, source, 0),
                              transpose(scatter_add(zeros({300, 7}), transpose(at), transpose(source), 1))});
    const NDArray last = scatter(zeros({7, 300}), at, source, 0);
    std::vector<float> made = concat({y, last}).to_vector<float>();
    if (expected.empty()) expected = made;
    CHECK(made == expected);
  });
}

TEST_CASE("the error names the first index that is wrong, whatever the workers") {
  for (const int workers : {1, 2, 4}) {
    CAPTURE(workers);
    Engine engine({.workers = workers});
    const EngineScope scope(engine);
    for (int round = 0; round < 20; ++round) {
      const NDArray y = take(arange(5), arange(100'000, DType::i64) * -1 - 2);
      CHECK(test::message_of([&] { y.wait(); }).find("index -6 at position 4 is out of range") !=
            std::string::npos);
    }
  }
}

TEST_CASE("sums of halves are made in f32, and gradients of what is taken often") {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const NDArray many = zeros({4096}, DType::i64);
    CHECK(scatter_add(zeros({2}, dtype), many, 0.25).astype(DType::f32).to_vector<float>() ==
          std::vector<float>{1024, 0});
    NDArray x = ones({2}, dtype);
    set_requires_grad(x);
    backward(sum(gather(x, many)));
    CHECK(grad(x).astype(DType::f32).to_vector<float>() == std::vector<float>{4096, 0});
    CHECK(scatter_max(ones({2}, dtype), many, 3).dtype() == dtype);
  }
}

TEST_CASE("masks take the elements of every dtype") {
  for (const DType dtype : kAllDTypes) {
    const NDArray x = arange(0, 6, 1, DType::f64).view_as({2, 3}).astype(dtype),
                  mask = array<bool>({true, false, true});
    CHECK(masked_select(transpose(x), array<bool>({true, false})).astype(DType::f32).size() == 3);
    CHECK(all(masked_select(x, mask) == take(reshape(x, {-1}), array<std::int64_t>({0, 2, 3, 5})))
              .item<bool>());
    CHECK(masked_fill(x, mask, 1).dtype() == dtype);
    CHECK(masked_scatter(x, mask, ones({4})).dtype() == dtype);
  }
  CHECK(nonzero(zeros({0, 3}))[1].size() == 0);
  CHECK(argwhere(ones({})).shape() == Shape{1, 0});
}

TEST_CASE("places out of range are errors of the op") {
  test::on_every_scheduler_with_errors([](Engine& engine) {
    const EngineScope scope(engine);
    const NDArray x = zeros({2, 3}), bad = array<std::int64_t>({1, 3}, {1, 2});
    const auto error = [](const NDArray& y) { return test::message_of([&] { y.wait(); }); };
    const std::string rest = ": index 3 at position (0, 1) is out of range for size 3";
    CHECK(error(gather(x, bad)).find("gather" + rest) != std::string::npos);
    CHECK(error(take_along_axis(x, bad)).find("take_along_axis" + rest) != std::string::npos);
    CHECK(error(scatter_add(x, bad, 1)).find("scatter_add" + rest) != std::string::npos);
    CHECK(error(put(x, bad + 3, 1)).find("put: index 6 at position 1 is out of range for size 6") !=
          std::string::npos);
    CHECK(error(index_put(x, {reshape(bad, {2})}, 1))
              .find("index_put: index 3 at position 1 is out of range for size 2") != std::string::npos);
    CHECK(error(masked_scatter(x, x == 0, ones({5})))
              .find("masked_scatter: the mask has 6 true elements for 5 values") != std::string::npos);
  });
}

TEST_CASE("refusals of gather and scatter say what came") {
  const NDArray x = zeros({2, 3});
  CHECK(refusal([&] { gather(x, places(), 1); }) ==
        "gather: indices of shape (3, 2) are larger than shape (2, 3) off axis 1");
  CHECK(refusal([&] { gather(x, zeros({2}, DType::i64)); }) ==
        "gather: shapes (2, 3) and (2,) of indices have different numbers of axes");
  CHECK(refusal([&] { take_along_axis(x, zeros({3, 1}, DType::i64)); }).starts_with("take_along_axis: "));
  CHECK(refusal([&] { scatter(x, zeros({2, 3}, DType::f32), 1); }).starts_with("scatter: indices"));
  CHECK(refusal([&] { scatter(x, zeros({2, 3}, DType::i64), zeros({4})); }).starts_with("scatter: "));
  CHECK(refusal([&] { index_add(x, places(), x); }) ==
        "index_add: indices have shape (3, 2); wanted one axis");
  CHECK(refusal([&] { index_put(x, {}, 1); }) == "index_put: 0 arrays of indices for shape (2, 3)");
  CHECK(refusal([&] { masked_fill(x, zeros({4}, DType::boolean), 1); }).starts_with("masked_fill: "));
  CHECK(refusal([&] { masked_select(x, x); }) == "masked_select: mask has dtype f32; wanted bool");
  CHECK(refusal([&] { nonzero(zeros({})); }).starts_with("nonzero: a scalar has no axes"));
}

}  // namespace heddle
