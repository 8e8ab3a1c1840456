// Linear algebra beyond numpy_cases_linalg.py: gradients, products of factors, empty arrays, halves, numbers
// of workers.
#include <cstring>
#include <functional>
#include <gradient_check.h>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/random.h>

#include "schedulers.h"

namespace heddle {

using testing::check_gradients;

namespace {

using Arrays = std::vector<NDArray>;

NDArray values(Shape shape, std::uint64_t seed = 5) {
  return Generator(seed).uniform(shape, -1, 1, DType::f64);
}
NDArray mirrored(const NDArray& x) { return x + swapaxes(x, -1, -2); }
// A random matrix that is well-conditioned.
NDArray regular(Shape shape, std::uint64_t seed = 5) {
  const std::int64_t n = shape[shape.size() - 1];
  return values(shape, seed) + eye(n, DType::f64) * static_cast<double>(n);
}

void check_equal(const NDArray& a, const NDArray& b, double tolerance = 1e-12) {
  REQUIRE(a.shape() == b.shape());
  if (a.size() > 0) CHECK(max(abs(a - b)).astype(DType::f64).item<double>() <= tolerance);
}

NDArray diagonal_matrix(const NDArray& s) {
  return expand_dims(s, -2) * eye(s.shape()[s.ndim() - 1], s.dtype());
}

}  // namespace

TEST_CASE("gradients of solutions and inverses") {
  const NDArray a = regular({2, 3, 3}), b = values({2, 3, 2}, 6), one = regular({3, 3}, 7);
  check_gradients([](const Arrays& in) { return solve(in[0], in[1]); }, {a, b});
  check_gradients([](const Arrays& in) { return solve(in[0], in[1]); }, {a, values({3}, 8)});
  check_gradients([](const Arrays& in) { return solve(in[0], in[1]); }, {one, b});
  for (const bool upper : {true, false})
    check_gradients([=](const Arrays& in) { return solve_triangular(in[0], in[1], upper); }, {a, b});
  check_gradients([](const Arrays& in) { return lstsq(in[0], in[1]); },
                  {values({2, 4, 3}), values({4, 2}, 8)}, 1e-5);
  check_gradients([](const Arrays& in) { return lstsq(in[0], in[1]); }, {values({2, 4}), values({2}, 8)},
                  1e-5);
  check_gradients([](const Arrays& in) { return inv(in[0]); }, {a});
  for (const Shape& shape : {Shape{2, 3, 3}, Shape{4, 2}, Shape{2, 4}})
    check_gradients([](const Arrays& in) { return pinv(in[0]); }, {values(shape)}, 1e-4);
}

TEST_CASE("gradients of determinants, also of singular matrices") {
  check_gradients([](const Arrays& in) { return det(in[0]); }, {values({2, 3, 3})});
  check_gradients([](const Arrays& in) { return slogdet(in[0])[1]; }, {values({2, 3, 3})}, 1e-5);
  const NDArray rank_two = array<double>({1, 2, 3, 4, 5, 6, 5, 7, 9}, {3, 3}),
                rank_one = ones({3, 3}, DType::f64);
  for (const auto& [x, expected] : std::vector<std::pair<NDArray, std::vector<double>>>{
           {rank_two, {3, -6, 3, 3, -6, 3, -3, 6, -3}}, {rank_one, std::vector<double>(9, 0)}}) {
    NDArray leaf = x.copy();
    set_requires_grad(leaf);
    backward(det(leaf));
    const std::vector<double> got = grad(leaf).to_vector<double>();
    for (std::size_t i = 0; i < 9; ++i) CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-9));
  }
  NDArray x = regular({2, 2});
  set_requires_grad(x);
  backward(slogdet(x)[0]);
  CHECK(grad(x).to_vector<double>() == std::vector<double>(4, 0));
}

TEST_CASE("gradients of factors") {
  check_gradients([](const Arrays& in) { return cholesky(mirrored(in[0]) + eye(3, DType::f64) * 9); },
                  {values({2, 3, 3})});
  for (const Shape& shape : {Shape{2, 3, 3}, Shape{4, 2}, Shape{2, 4}}) {
    for (const std::size_t i : {0, 1})
      check_gradients([=](const Arrays& in) { return qr(in[0])[i]; }, {values(shape)}, 1e-4);
    for (const std::size_t i : {0, 1, 2})
      check_gradients([=](const Arrays& in) { return svd(in[0], false)[i]; }, {values(shape)}, 1e-4);
    check_gradients([](const Arrays& in) { return svdvals(in[0]); }, {values(shape)}, 1e-4);
  }
  check_gradients([](const Arrays& in) { return qr(in[0], "complete")[1]; }, {values({2, 4})}, 1e-4);
  for (const char* uplo : {"L", "U"}) {
    for (const std::size_t i : {0, 1})
      check_gradients([=](const Arrays& in) { return eigh(mirrored(in[0]), uplo)[i]; }, {values({2, 3, 3})},
                      1e-4);
    check_gradients([=](const Arrays& in) { return eigvalsh(mirrored(in[0]), uplo); }, {values({2, 3, 3})},
                    1e-4);
  }
  // The loss depends on all three factors of the decomposition.
  check_gradients(
      [](const Arrays& in) {
        const Arrays y = svd(in[0], false);
        return matmul(y[0] * expand_dims(square(y[1]), -2), y[2]);
      },
      {values({4, 3})}, 1e-4);
}

TEST_CASE("gradients of functions of matrices") {
  for (const std::int64_t n : {-2, -1, 1, 2, 5})
    check_gradients([=](const Arrays& in) { return matrix_power(in[0], n); }, {regular({2, 3, 3}) / 3}, 1e-5);
  check_gradients([](const Arrays& in) { return expm(in[0]); }, {values({2, 3, 3})});
  check_gradients([](const Arrays& in) { return expm(in[0]); }, {values({2, 2}) * 12}, 1e-5);
  for (const char* ord : {"fro", "nuc", "1", "-1", "2", "-2", "inf", "-inf"}) {
    check_gradients([=](const Arrays& in) { return matrix_norm(in[0], ord); }, {values({2, 3, 4})}, 1e-4);
    check_gradients([=](const Arrays& in) { return cond(in[0], ord); }, {regular({3, 3})}, 1e-4);
  }
  check_gradients([](const Arrays& in) { return vector_norm(in[0], 3, {1}); }, {values({2, 3})});
}

TEST_CASE("factors multiplied give the matrix again") {
  for (const Shape& shape : {Shape{3, 3}, Shape{2, 5, 3}, Shape{2, 1, 3, 5}, Shape{40, 70}}) {
    const NDArray x = values(shape);
    const std::int64_t m = shape[shape.size() - 2], n = shape[shape.size() - 1], k = std::min(m, n);
    const Arrays p = lu(x);
    check_equal(matmul(p[0], matmul(p[1], p[2])), x);
    check_equal(tril(p[1]), p[1]);
    check_equal(triu(p[2]), p[2]);
    for (const char* mode : {"reduced", "complete"}) {
      const Arrays y = qr(x, mode);
      check_equal(matmul(y[0], y[1]), x);
      check_equal(triu(y[1]), y[1]);
      const NDArray product = matmul(swapaxes(y[0], -1, -2), y[0]);
      check_equal(product, broadcast_to(eye(y[0].shape()[y[0].ndim() - 1], DType::f64), product.shape()));
    }
    const Arrays y = svd(x, false), full = svd(x);
    check_equal(matmul(matmul(y[0], diagonal_matrix(y[1])), y[2]), x);
    check_equal(full[1], y[1]);
    check_equal(slice(full[0], -1, {.end = k}), y[0]);
    check_equal(slice(full[2], -2, {.end = k}), y[2]);
    check_equal(matmul(full[0], swapaxes(full[0], -1, -2)),
                broadcast_to(eye(m, DType::f64), full[0].shape()));
    check_equal(matmul(full[2], swapaxes(full[2], -1, -2)),
                broadcast_to(eye(n, DType::f64), full[2].shape()));
  }
  const NDArray x = mirrored(values({2, 6, 6}));
  for (const char* uplo : {"L", "U"}) {
    const Arrays y = eigh((*uplo == 'L' ? tril(x) : triu(x)), uplo);
    check_equal(matmul(matmul(y[1], diagonal_matrix(y[0])), swapaxes(y[1], -1, -2)), x);
  }
}

TEST_CASE("matrices without rows or columns") {
  const NDArray none = zeros({2, 0, 0}), tall = zeros({3, 0}), flat = zeros({0, 3}),
                no_batch = zeros({0, 2, 2});
  CHECK(det(none).to_vector<float>() == std::vector<float>{1, 1});
  CHECK(slogdet(none)[1].to_vector<float>() == std::vector<float>{0, 0});
  CHECK(inv(none).shape() == none.shape());
  CHECK(cholesky(none).shape() == none.shape());
  CHECK(expm(none).shape() == none.shape());
  CHECK(solve(none, zeros({2, 0, 3})).shape() == Shape{2, 0, 3});
  CHECK(solve(eye(2), zeros({2, 0})).shape() == Shape{2, 0});
  CHECK(eigh(none)[0].shape() == Shape{2, 0});
  CHECK(matrix_rank(tall).item<std::int64_t>() == 0);
  CHECK(pinv(tall).shape() == Shape{0, 3});
  CHECK(lstsq(tall, zeros({3, 2})).shape() == Shape{0, 2});
  CHECK(lstsq(flat, zeros({0, 2})).to_vector<float>() == std::vector<float>(6, 0));
  check_equal(svd(tall)[0], eye(3));
  check_equal(svd(flat)[2], eye(3));
  CHECK(svd(tall, false)[0].shape() == Shape{3, 0});
  check_equal(qr(tall, "complete")[0], eye(3));
  CHECK(qr(flat)[1].shape() == flat.shape());
  check_equal(lu(tall)[0], eye(3));
  for (const NDArray& y : {inv(no_batch), cholesky(no_batch), expm(no_batch), solve(no_batch, no_batch)}) {
    y.wait();
    CHECK(y.shape() == no_batch.shape());
  }
  CHECK(det(no_batch).shape() == Shape{0});
  CHECK(svd(no_batch)[1].shape() == Shape{0, 2});
}

TEST_CASE("linear algebra of halves, integers and bools") {
  const NDArray x = array<float>({4, 1, 1, 3}, {2, 2});
  const NDArray half = x.astype(DType::f16), whole = x.astype(DType::i32);
  CHECK(inv(half).dtype() == DType::f16);
  check_equal(inv(half).astype(DType::f32), inv(x), 1e-3);
  CHECK(svd(half)[2].dtype() == DType::f16);
  CHECK(eigh(half)[0].dtype() == DType::f16);
  CHECK(solve(whole, ones({2})).dtype() == DType::f64);
  check_equal(det(whole), full({}, 11, DType::f64));
  CHECK(matrix_power(whole, 2).to_vector<std::int32_t>() == std::vector<std::int32_t>{17, 7, 7, 10});
  CHECK(matrix_power(whole, 0).to_vector<std::int32_t>() == std::vector<std::int32_t>{1, 0, 0, 1});
  CHECK(matrix_power(whole, -1).dtype() == DType::f64);
  CHECK(matrix_rank(ones({2, 2}, DType::boolean)).item<std::int64_t>() == 1);
  NDArray leaf = half.copy();
  set_requires_grad(leaf);
  backward(det(leaf));
  CHECK(grad(leaf).astype(DType::f32).to_vector<float>() == std::vector<float>{3, -1, -1, 4});
}

TEST_CASE("a batch gives the same bits on any number of workers") {
  const std::vector<double> numbers = values({64, 12, 12}).to_vector<double>();
  std::vector<std::vector<double>> first;
  test::on_every_scheduler([&](Engine& engine) {
    const EngineScope scope(engine);
    const NDArray x = array<double>(numbers, {64, 12, 12});
    std::vector<std::vector<double>> results;
    for (const NDArray& y :
         {solve(x, x[0]), inv(x), det(x), expm(x), svd(x)[0], eigh(mirrored(x))[1], qr(x)[0]})
      results.push_back(y.to_vector<double>());
    if (first.empty()) first = results;
    CHECK(results == first);
  });
}

TEST_CASE("linear algebra and its gradients run on the engine of the arrays") {
  Engine other({.workers = 1});
  NDArray x;
  {
    const EngineScope scope(other);
    x = regular({2, 3, 3});
  }
  set_requires_grad(x);
  backward(sum(eigh(mirrored(x))[1] + svd(x)[0] + matrix_power(x, 0) + expm(x) + qr(x)[0]) + sum(det(x)));
  CHECK(&grad(x).engine() == &other);
  grad(x).wait();
}

TEST_CASE("exponentials of matrices") {
  const NDArray turn = array<double>({0, -1, 1, 0}, {2, 2});
  for (const double angle : {0.0, 0.5, 3.0, 40.0}) {
    const double c = std::cos(angle), s = std::sin(angle);
    check_equal(expm(turn * angle), array<double>({c, -s, s, c}, {2, 2}), 1e-12);
  }
  const NDArray nilpotent = array<double>({0, 1, 2, 0, 0, 3, 0, 0, 0}, {3, 3});
  check_equal(expm(nilpotent), array<double>({1, 1, 3.5, 0, 1, 3, 0, 0, 1}, {3, 3}));
  check_equal(expm(zeros({2, 2})), eye(2));
  CHECK(std::isnan(expm(full({1, 1}, std::numeric_limits<double>::infinity(), DType::f64)).item<double>()));
}

TEST_CASE("the condition of a singular matrix is infinite, and that of the others in its batch as ever") {
  const double infinity = std::numeric_limits<double>::infinity();
  const NDArray flat = zeros({2, 2}, DType::f64), x = stack({eye(2, DType::f64), ones({2, 2}, DType::f64)});
  using Case = std::pair<std::string, double>;
  for (const auto& [p, expected] :
       {Case{"1", 1}, {"-1", 1}, {"2", 1}, {"-2", 1}, {"inf", 1}, {"-inf", 1}, {"fro", 2}, {"nuc", 4}}) {
    CAPTURE(p);
    CHECK(cond(flat, p).item<double>() == infinity);
    const std::vector<double> both = cond(x, p).to_vector<double>();
    CHECK(both[0] == doctest::Approx(expected));
    // A matrix of ones has singular values that are 0 except for rounding, so its condition number is huge.
    CHECK((p == "-2" ? 1 / both[1] : both[1]) > 1e15);
    NDArray leaf = x.copy();
    set_requires_grad(leaf);
    backward(sum(cond(leaf, p)));
    const std::vector<double> slope = grad(leaf).to_vector<double>();
    for (std::size_t i = 0; i < 4; ++i) CHECK(std::isfinite(slope[i]));
  }
  CHECK(cond(x, "1").to_vector<double>() == std::vector<double>{1, infinity});
  CHECK(std::isnan(cond(full({2, 2}, std::nan("")), "1").item<float>()));
}

TEST_CASE("norms of nothing are 0") {
  for (const Shape& shape : {Shape{0, 3}, Shape{3, 0}, Shape{0, 0}, Shape{2, 0, 3}, Shape{2, 3, 0}}) {
    CAPTURE(shape.to_string());
    const std::vector<double> expected(shape.size() == 3 ? 2 : 1, 0.0);
    for (const char* ord : {"fro", "nuc", "2", "1", "inf"}) {
      CAPTURE(ord);
      NDArray x = zeros(shape, DType::f64);
      CHECK(matrix_norm(x, ord).to_vector<double>() == expected);
      set_requires_grad(x);
      const NDArray y = matrix_norm(x, ord, true);
      CHECK(y.ndim() == shape.size());
      backward(sum(y));
      CHECK(grad(x).shape() == shape);
      grad(x).wait();
    }
  }
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(vector_norm(zeros({0}), infinity).item<float>() == 0);
  CHECK(vector_norm(zeros({2, 0}), infinity, {1}).to_vector<float>() == std::vector<float>{0, 0});
  CHECK(norm(zeros({0, 2}), infinity, {1}).shape() == Shape{0});
}

TEST_CASE("the inverse of a matrix with NaN or infinity has no number where NumPy has none") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const NDArray all_nan = array({{nan, 1.f}, {2.f, 3.f}}), last_nan = array({{1.f, 1.f}, {2.f, nan}});
  for (const NDArray& x : {all_nan, last_nan, full({2, 2}, inf), full({3, 3}, nan)})
    CHECK(all(isnan(inv(x))).item<bool>());
  CHECK(all(isnan(matrix_power(full({2, 2}, nan), -1))).item<bool>());
  CHECK(inv(array({{inf, 0.f}, {0.f, 2.f}})).to_vector<float>() == std::vector<float>{0, 0, 0, 0.5});
  const NDArray batch = stack({all_nan, eye(2)});  // NaN in one matrix does not affect another
  CHECK(inv(batch)[1].to_vector<float>() == std::vector<float>{1, 0, 0, 1});
}

}  // namespace heddle
