#include <algorithm>
#include <arrays.h>
#include <cmath>
#include <gradient_check.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>

namespace heddle {

using test::check_close;
using test::uniform;

namespace {

std::string refusal(const NDArray& a, const NDArray& b) {
  try {
    matmul(a, b);
  } catch (const InvalidArgument& error) {
    return error.message();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("matmul of small numbers") {
  const NDArray a = array<float>({1, 2, 3, 4, 5, 6}, {2, 3}), b = array<float>({1, 0, 0, 1, 1, 1}, {3, 2});
  CHECK(matmul(a, b).to_vector<float>() == std::vector<float>{4, 5, 10, 11});
  CHECK(matmul(a.permuted({1, 0}), b.permuted({1, 0})).shape() == Shape{3, 3});
  const NDArray v = array<float>({1, 1, 1}, {3});
  CHECK(matmul(a, v).to_vector<float>() == std::vector<float>{6, 15});
  CHECK(matmul(v, b).to_vector<float>() == std::vector<float>{2, 2});
  CHECK(matmul(v, v).shape() == Shape{});
  CHECK(matmul(v, v).item<float>() == 3);
}

TEST_CASE("matmul's gradients agree with finite differences") {
  const std::vector<std::pair<Shape, Shape>> shapes = {
      {{3, 4}, {4, 2}},       {{4}, {4}},          {{4}, {4, 3}},    {{3, 4}, {4}},
      {{2, 3, 4}, {4, 2}},    {{3, 4}, {2, 4, 2}}, {{4}, {2, 4, 3}}, {{2, 1, 3, 2}, {4, 2, 3}},
      {{1, 2, 3}, {5, 3, 1}}, {{2, 3, 4}, {4}},
  };
  for (const auto& [a, b] : shapes) {
    CAPTURE(a.to_string());
    CAPTURE(b.to_string());
    testing::check_gradients([](const std::vector<NDArray>& in) { return matmul(in[0], in[1]); },
                             {uniform(a, DType::f64, 1), uniform(b, DType::f64, 2)});
  }
}

TEST_CASE("matmul's gradients through transposed and mixed inputs") {
  testing::check_gradients(
      [](const std::vector<NDArray>& in) { return matmul(transpose(in[0]), transpose(in[1])); },
      {uniform({4, 3}, DType::f64, 1), uniform({5, 4}, DType::f64, 2)});
  NDArray single = uniform({2, 3}, DType::f32, 3), wide = uniform({3, 2}, DType::f64, 4);
  set_requires_grad(single);
  set_requires_grad(wide);
  const NDArray y = matmul(single, wide);
  CHECK(y.dtype() == DType::f64);
  backward(sum(y));
  CHECK(grad(single).dtype() == DType::f32);
  CHECK(grad(wide).dtype() == DType::f64);
}

TEST_CASE("matmul in f32 agrees with f64, in tiles and transposed") {
  for (const auto& [m, n, k] :
       {std::tuple{5, 7, 3}, {150, 260, 300}, {64, 128, 3136}, {700, 33, 190}, {1, 900, 64}}) {
    const NDArray a = uniform({m, k}, DType::f32, 1), b = uniform({k, n}, DType::f32, 2);
    const NDArray expected = matmul(a.astype(DType::f64), b.astype(DType::f64));
    check_close(matmul(a, b), expected, 1e-4);
    const NDArray at = a.permuted({1, 0}).copy().permuted({1, 0}),
                  bt = b.permuted({1, 0}).copy().permuted({1, 0});
    check_close(matmul(at, b), expected, 1e-4);
    check_close(matmul(a, bt), expected, 1e-4);
    check_close(matmul(at, bt), expected, 1e-4);
  }
}

TEST_CASE("matmul of nothing") {
  CHECK(matmul(zeros({2, 0}), zeros({0, 3})).to_vector<float>() == std::vector<float>(6, 0.0f));
  CHECK(matmul(zeros({0, 2}), zeros({2, 3})).shape() == Shape{0, 3});
  CHECK(matmul(zeros({0, 2, 2}), zeros({2, 3})).shape() == Shape{0, 2, 3});
  NDArray w = ones({2, 3});
  set_requires_grad(w);
  backward(sum(matmul(zeros({0, 4, 2}), w)));
  CHECK(grad(w).to_vector<float>() == std::vector<float>(6, 0.0f));
}

TEST_CASE("matmul of integers wraps") {
  const NDArray big = full({1, 2}, 2000000000, DType::i32);
  CHECK(matmul(big, ones({2, 1}, DType::i32)).item<std::int32_t>() == -294967296);
  CHECK(matmul(full({1, 2}, 200, DType::u8), ones({2, 1}, DType::u8)).item<std::uint8_t>() == 144);
  const NDArray truth = array<bool>({true, false, true, true}, {2, 2});
  CHECK(matmul(truth, truth).to_vector<bool>() == std::vector<bool>{true, false, true, true});
}

TEST_CASE("matmul refuses what it cannot do, at the call") {
  CHECK(refusal(zeros({2, 3}), zeros({4, 5})) == "matmul: inner dimensions differ: (2, 3) and (4, 5)");
  CHECK(refusal(zeros({3}), zeros({4})) == "matmul: inner dimensions differ: (3,) and (4,)");
  CHECK(refusal(zeros({}), zeros({3})) == "matmul: a scalar has no axis to multiply along: () and (3,)");
  CHECK(refusal(zeros({2, 2, 3}), zeros({3, 3, 2})).starts_with("matmul: "));
  CHECK(refusal(NDArray(), zeros({3})) ==
        "matmul: an array is undefined: made without a shape, moved from, or a gradient before backward()");
}

TEST_CASE("linear is x w^T + b, then relu") {
  const NDArray x = array<float>({1, 2, 3, 4}, {2, 2}), w = array<float>({1, 0, 0, 1, 1, -1}, {3, 2});
  const NDArray b = array<float>({10, 20, 0}, {3});
  CHECK(linear(x, w).to_vector<float>() == std::vector<float>{1, 2, -1, 3, 4, -1});
  CHECK(linear(x, w, b).to_vector<float>() == std::vector<float>{11, 22, -1, 13, 24, -1});
  CHECK(linear(x, w, b, {.relu = true}).to_vector<float>() == std::vector<float>{11, 22, 0, 13, 24, 0});
  CHECK(linear(zeros({2, 5, 2}), w).shape() == Shape{2, 5, 3});
  CHECK(linear(zeros({2}), w).shape() == Shape{3});
}

TEST_CASE("linear's gradients agree with finite differences") {
  for (const bool relu : {false, true}) {
    for (const Shape& x : {Shape{4, 3}, Shape{2, 2, 3}, Shape{3}}) {
      testing::check_gradients(
          [&](const std::vector<NDArray>& in) { return linear(in[0], in[1], in[2], {.relu = relu}); },
          {uniform(x, DType::f64, 1), uniform({5, 3}, DType::f64, 2), uniform({5}, DType::f64, 3)});
      testing::check_gradients([&](const std::vector<NDArray>& in) { return linear(in[0], in[1]); },
                               {uniform(x, DType::f64, 1), uniform({5, 3}, DType::f64, 2)});
    }
  }
}

TEST_CASE("NaN goes through linear's relu, forward and backward") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    NDArray x = full({2, 3}, -1, dtype);
    x[0].fill(std::nan(""));
    set_requires_grad(x);
    const NDArray y = linear(x, full({4, 3}, 2, dtype), {}, {.relu = true});
    backward(y, ones({2, 4}, dtype));
    const auto values = y.astype(DType::f64).to_vector<double>();
    CHECK(std::all_of(values.begin(), values.begin() + 4, [](double v) { return std::isnan(v); }));
    CHECK(std::all_of(values.begin() + 4, values.end(), [](double v) { return v == 0; }));
    CHECK(grad(x).astype(DType::f64).to_vector<double>() == std::vector<double>{8, 8, 8, 0, 0, 0});
  }
}

TEST_CASE("linear in f32 agrees with f64") {
  const auto run = [](DType dtype) {
    std::vector<NDArray> leaves{uniform({64, 700}, DType::f32, 1).astype(dtype),
                                uniform({300, 700}, DType::f32, 2).astype(dtype),
                                uniform({300}, DType::f32, 3).astype(dtype)};
    for (NDArray& leaf : leaves) set_requires_grad(leaf);
    const NDArray y = linear(leaves[0], leaves[1], leaves[2], {.relu = true});
    backward(y, uniform(y.shape(), DType::f32, 4).astype(dtype));
    return std::vector<NDArray>{y.detach(), grad(leaves[0]), grad(leaves[1]), grad(leaves[2])};
  };
  const auto single = run(DType::f32), wide = run(DType::f64);
  for (std::size_t i = 0; i < single.size(); ++i) check_close(single[i], wide[i], 1e-3);
}

TEST_CASE("linear refuses what it cannot do, at the call") {
  CHECK_THROWS_WITH_AS(linear(zeros({2, 3}), zeros({4, 2})),
                       "linear: x (2, 3) and weight (4, 2); wanted (..., in) and (out, in)", InvalidArgument);
  CHECK_THROWS_WITH_AS(linear(zeros({2, 3}), zeros({4, 3}), zeros({3})), "linear: bias (3,); wanted (4,)",
                       InvalidArgument);
  CHECK_THROWS_AS(linear(zeros({2, 3}, DType::i32), zeros({4, 3}, DType::i32)), InvalidArgument);
  CHECK_THROWS_AS(linear(zeros({2, 3}), zeros({4, 3}, DType::f64)), InvalidArgument);
}

TEST_CASE("the gradient of a bias keeps its digits over many rows") {
  constexpr std::int64_t kRows = 262144;
  NDArray bias = zeros({3});
  set_requires_grad(bias);
  backward(linear(zeros({kRows, 1}), zeros({3, 1}), bias), full({kRows, 3}, 0.1));
  const double expected = static_cast<double>(0.1f) * kRows;
  for (const float sum : grad(bias).to_vector<float>()) {
    CHECK(sum == doctest::Approx(expected).epsilon(2e-6));
  }
}

TEST_CASE("products of one row or column, and sums of many products, keep their digits") {
  // Adding 1 to an f32 of 2^24 or more does not change it. So a sequential sum would stay at its first
  // number, while sums of parts grow.
  constexpr std::int64_t kLong = 200000;
  constexpr double kFirst = 0x1p24;
  const auto near = [](const NDArray& x) { return max(abs(x - (kFirst + kLong - 1))).item<float>() <= 1100; };
  const NDArray row = concat({full({1, 1}, kFirst), ones({1, kLong - 1})}, 1), one = ones({1, kLong});
  for (const NDArray& a : {row, concat({row, row})}) {
    for (const NDArray& b : {one, concat({one, one})}) {
      CHECK(near(matmul(a, transpose(b))));
      CHECK(near(matmul(a, transpose(b).contiguous())));
      CHECK(near(matmul(transpose(transpose(a).contiguous()), transpose(b))));
      CHECK(near(matmul(transpose(transpose(a).contiguous()), transpose(b).contiguous())));
      CHECK(near(linear(a, b, {})));
    }
  }
  NDArray weight = ones({1, 1});
  set_requires_grad(weight);
  backward(sum(matmul(reshape(row, {kLong, 1, 1}), weight)));
  CHECK(near(grad(weight)));
}

TEST_CASE("a sum of many products of matrices is that of f64") {
  const NDArray x = Generator(2).uniform({300, 40, 5}, -1, 1),
                y = Generator(3).uniform({300, 40, 1100}, -1, 1);
  NDArray weight = zeros({5, 1100});
  set_requires_grad(weight);
  backward(matmul(x, weight), y);
  const NDArray exact = sum(matmul(transpose(x.astype(DType::f64), {0, 2, 1}), y.astype(DType::f64)), {0});
  CHECK(max(abs(grad(weight) - exact)).item<double>() < 1e-4);
}

}  // namespace heddle
