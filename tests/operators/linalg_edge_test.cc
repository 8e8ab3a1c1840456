// Linear algebra with matrices that are singular, far from normal, or of extreme sizes.
#include <cmath>
#include <gradient_check.h>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/random.h>

namespace heddle {
namespace {

NDArray square_of(const std::vector<double>& values) {
  const auto n = static_cast<std::int64_t>(std::lround(std::sqrt(static_cast<double>(values.size()))));
  return array(values, {n, n});
}

void check_close(const NDArray& got, const std::vector<double>& expected, double tolerance = 1e-12) {
  const std::vector<double> values = got.astype(DType::f64).to_vector<double>();
  REQUIRE(values.size() == expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(values[i] - expected[i]) <= tolerance * std::max(1e-300, std::abs(expected[i])));
  }
}

// The second gradient of det: the gradient of sum(weights * d(det)/dx) by x.
NDArray second_of_det(const NDArray& given, const NDArray& weights, bool create_graph = false) {
  NDArray x = given.copy();
  set_requires_grad(x);
  const NDArray first = grad({sum(det(x))}, {x}, {.create_graph = true})[0];
  return grad({sum(first * weights)}, {x}, {.create_graph = create_graph})[0];
}

}  // namespace

TEST_CASE("the second gradient of det, of regular, singular and almost singular matrices") {
  const NDArray weights = square_of({1, 2, 3, 4});
  for (const NDArray& x :
       {square_of({1, 2, 3, 5}), square_of({1, 2, 2, 4}), zeros({2, 2}, DType::f64), eye(2, DType::f64),
        square_of({-1, 0.6407868266359722, -0.44212006246763677, 0.28330471438083216})}) {
    const NDArray second = second_of_det(x, weights);
    CHECK(max(abs(second - square_of({4, -3, -2, 1}))).item<double>() < 1e-14);
  }
  // For a matrix [[a, b, c], [d, e, f], [g, h, i]], d(det)/da is e i - f h. Its derivatives by e, f, h and i
  // are i, -h, -f and e.
  const NDArray x = square_of({1, 2, 3, 2, 4, 6, 3, 6, 9}), one = square_of({1, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(max(abs(second_of_det(x, one) - square_of({0, 0, 0, 0, 9, -6, 0, -6, 4}))).item<double>() < 1e-12);
  CHECK(second_of_det(square_of({3}), square_of({2})).item<double>() == 0);
  testing::check_gradients([](const std::vector<NDArray>& in) { return det(in[0]); },
                           {Generator(4).uniform({2, 4, 4}, -1, 1, DType::f64)});
}

TEST_CASE("the third gradient of det is that of the second") {
  NDArray x = Generator(4).uniform({3, 3}, -1, 1, DType::f64) + eye(3, DType::f64) * 2;
  const NDArray weights = Generator(5).uniform({3, 3}, -1, 1, DType::f64);
  set_requires_grad(x);
  const NDArray first = grad({det(x)}, {x}, {.create_graph = true})[0];
  const NDArray second = grad({sum(first * weights)}, {x}, {.create_graph = true})[0];
  CHECK(max(abs(second - second_of_det(x.detach(), weights))).item<double>() < 1e-12);
  const NDArray third = grad({sum(second * weights)}, {x})[0];
  constexpr double kStep = 1e-6;
  const NDArray above = second_of_det(x.detach() + kStep * weights, weights),
                below = second_of_det(x.detach() - kStep * weights, weights);
  // The third gradient must equal the derivative of the second gradient in the direction of the weights,
  // which is computed as a difference quotient.
  CHECK(max(abs(third - (above - below) / (2 * kStep))).item<double>() < 1e-7);
}

TEST_CASE("expm of triangular matrices with large entries") {
  const double e = std::exp(1);
  check_close(expm(square_of({1, 1e9, 0, 1})), {e, 1e9 * e, 0, e});
  check_close(expm(square_of({1, 0, 1e9, 1})), {e, 0, 1e9 * e, e});
  check_close(expm(square_of({1, 1e200, 0, 1})), {e, 1e200 * e, 0, e});
  check_close(expm(square_of({0, 1e15, 0, -1000})), {1, 1e12, 0, 0});
  check_close(expm(square_of({-1, 1e6, 0, -1 - 1e-9})),
              {1 / e, 1e6 / e * (1 - 0.5e-9), 0, std::exp(-1 - 1e-9)});
  check_close(expm(square_of({0, 1e6, 1e6, 0, 0, 1e6, 0, 0, 0})), {1, 1e6, 1e6 + 0.5e12, 0, 1, 1e6, 0, 0, 1});
  check_close(expm(square_of({0, 0, 0, 1e6, 0, 0, 1e6, 1e6, 0})), {1, 0, 0, 1e6, 1, 0, 1e6 + 0.5e12, 1e6, 1});
  check_close(expm(diag(array<double>({-700, 0, 5, 700}))),
              diag(exp(array<double>({-700, 0, 5, 700}))).to_vector<double>());
  // The square of this matrix is 0, so expm gives the identity plus the matrix.
  check_close(expm(square_of({1e3, -1e3, 1e3, -1e3})), {1 + 1e3, -1e3, 1e3, 1 - 1e3}, 1e-6);
  check_close(expm(square_of({0, -3, 3, 0})), {std::cos(3), -std::sin(3), std::sin(3), std::cos(3)}, 1e-14);
  check_close(expm(square_of({0, -300, 300, 0})),
              {std::cos(300), -std::sin(300), std::sin(300), std::cos(300)}, 1e-11);
  CHECK(std::isnan(expm(square_of({1, std::nan(""), 0, 1})).to_vector<double>()[0]));
  CHECK(expm(zeros({2, 0, 0})).shape() == Shape{2, 0, 0});
}

TEST_CASE("expm's gradient is proportional to what it is multiplied by") {
  for (const DType dtype : {DType::f64, DType::f32}) {
    NDArray x = square_of({0.1, 0.7, -0.4, 0.3}).astype(dtype);
    set_requires_grad(x);
    const NDArray one = grad({expm(x)}, {x}, {.seeds = {ones({2, 2}, dtype)}})[0].astype(DType::f64);
    for (const double seed : {1e7, 1e10, 1e30, 1e-30, 3e35}) {
      CAPTURE(seed);
      const NDArray g = grad({expm(x)}, {x}, {.seeds = {full({2, 2}, seed, dtype)}})[0];
      check_close(g / seed, {1.1126, 0.6765, 2.0258, 1.3579}, 5e-5);
      check_close(g / seed, one.to_vector<double>(), dtype == DType::f64 ? 1e-14 : 1e-6);
    }
    CHECK(grad({expm(x)}, {x}, {.seeds = {zeros({2, 2}, dtype)}})[0].astype(DType::f64).to_vector<double>() ==
          std::vector<double>(4, 0));
  }
  testing::check_gradients([](const std::vector<NDArray>& in) { return expm(in[0]); },
                           {Generator(3).uniform({2, 3, 3}, -3, 3, DType::f64)});
}

TEST_CASE("ranks and pseudo-inverses of halves are those of what the halves say") {
  // The product of the column and the row has rank 1, except for the rounding to the half type.
  const NDArray column = array<double>({1, 1.5, 2.1}), row = array<double>({0.7, 1.3, 0.9, 3.3});
  for (const DType dtype : {DType::f16, DType::bf16}) {
    CAPTURE(name_of(dtype));
    const NDArray x = outer(column, row).astype(dtype);
    CHECK(matrix_rank(x).item<std::int64_t>() == 1);
    CHECK(matrix_rank(x.astype(DType::f32)).item<std::int64_t>() > 1);
    CHECK(max(abs(pinv(x))).astype(DType::f32).item<float>() < 1);
    const NDArray best = lstsq(x, ones({3}, dtype));
    CHECK(max(abs(best)).astype(DType::f32).item<float>() < 1);
  }
}

}  // namespace heddle
