// Errors of linear algebra: those that the call throws, and those of its op, which depend on the matrix's
// values.
#include <cmath>
#include <functional>
#include <limits>
#include <message_of.h>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>

#include "call_sites.h"
#include "schedulers.h"

namespace heddle {

using test::message_of;

namespace {

// A batch of identity matrices, except that all elements of the matrix number `wrong` are 1.
NDArray batch(Shape shape, std::int64_t wrong) {
  const std::int64_t n = shape[shape.size() - 1], count = element_count(shape) / (n * n);
  NDArray x = broadcast_to(eye(n, DType::f64), {count, n, n}).copy();
  x[wrong].fill(1);
  return reshape(x, shape);
}

// Waits for y and returns the message of its error. This marks the error as seen, so that the engine does not
// log it.
std::string error_of(const NDArray& y) {
  return message_of([&] { y.wait(); });
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a singular matrix is an error that names the op, the matrix and the line of the call") {
  test::on_every_scheduler_with_errors([](Engine& engine) {
    const EngineScope scope(engine);
    const NDArray x = batch({2, 3, 2, 2}, 4), one = ones({2, 2}), b = ones({2, 1});
    const int line = __LINE__;
    const NDArray y = solve(x, b);
    const NDArray z = inv(x);
    const NDArray s = inv(one);
    const NDArray t = solve_triangular(zeros({2, 2}), b);
    const NDArray p = matrix_power(x, -2);
    const std::string what = "matrix (1, 1) is singular: element (1, 1) of its triangular factor is 0";
    const auto at = [&](int after) { return "linalg_error_test.cc:" + std::to_string(line + after); };
    for (const auto& [result, name, place] : std::vector<std::tuple<NDArray, std::string, int>>{
             {y, "solve", 1}, {z, "inv", 2}, {p, "matrix_power", 5}}) {
      const std::string message = error_of(result);
      CAPTURE(message);
      CHECK(holds(message, name + ": " + what));
      CHECK(holds(test::text_of(engine.error_of(result.var()).where), at(place)));
    }
    CHECK(holds(error_of(s), "inv: the matrix is singular: element (1, 1) of its triangular factor is 0"));
    CHECK(holds(error_of(t), "solve_triangular: the matrix is singular: element (0, 0)"));
    // An op that reads the failed result has the same error.
    CHECK(holds(error_of(sum(z) + 1), "inv: " + what));
  });
}

TEST_CASE("the first of several singular matrices is named") {
  const NDArray x = zeros({200, 3, 3});
  const NDArray y = inv(x);
  CHECK(holds(error_of(y), "inv: matrix 0 is singular: element (0, 0)"));
}

TEST_CASE("a singular matrix has a determinant, singular values and a condition") {
  const NDArray x = batch({3, 2, 2}, 1);
  CHECK(det(x).to_vector<double>() == std::vector<double>{1, 0, 1});
  CHECK(slogdet(x)[0].to_vector<double>() == std::vector<double>{1, 0, 1});
  CHECK(slogdet(x)[1].to_vector<double>()[1] == -std::numeric_limits<double>::infinity());
  CHECK(matrix_rank(x).to_vector<std::int64_t>() == std::vector<std::int64_t>{2, 1, 2});
  CHECK(cond(zeros({2, 2}) + 1).item<float>() > 1e6F);
  NDArray leaf = x.copy();
  set_requires_grad(leaf);
  backward(sum(slogdet(leaf)[1]));
  CHECK(holds(error_of(grad(leaf)), "slogdet: its gradient needs regular matrices: matrix 1 is singular"));
  const NDArray first = grad({sum(det(leaf))}, {leaf}, {.create_graph = true})[0];
  CHECK(first.to_vector<double>()[4] == doctest::Approx(1));
  const NDArray second = grad({sum(square(first))}, {leaf}, {.create_graph = true})[0];
  const NDArray third = grad({sum(square(second))}, {leaf})[0];
  CHECK(holds(error_of(third), "det: its third gradient needs regular matrices: matrix 1 is singular"));
}

TEST_CASE("values that have no factors are errors") {
  const NDArray minus = array<double>({1, 2, 2, 1}, {2, 2}), nan = full({2, 2}, std::nan(""));
  const NDArray c = cholesky(minus), s = svd(nan)[1], v = svdvals(nan), e = eigh(nan)[0];
  const NDArray l = lstsq(nan, ones({2})), one = lstsq(eye(2), full({2}, std::nan("")));
  CHECK(holds(error_of(c),
              "cholesky: the matrix is not positive definite: its first 2 rows and columns are not"));
  CHECK(holds(error_of(s), "svd: the matrix has an element that is not finite"));
  CHECK(holds(error_of(v), "svdvals: the matrix has an element that is not finite"));
  CHECK(holds(error_of(e), "eigh: the matrix has an element that is not finite"));
  CHECK(holds(error_of(l), "lstsq: the matrix has an element that is not finite"));
  CHECK(holds(error_of(one), "lstsq: the matrix has an element that is not finite"));
  // The error must name the function that was called, not another function that it calls.
  const NDArray rank = matrix_rank(nan), nuclear = matrix_norm(nan, "nuc"), condition = cond(nan);
  CHECK(holds(error_of(rank), "matrix_rank: the matrix has an element that is not finite"));
  CHECK(holds(error_of(nuclear), "matrix_norm: the matrix has an element that is not finite"));
  CHECK(holds(error_of(condition), "cond: the matrix has an element that is not finite"));
  // Elements of the triangle that is not used are not read: a NaN there does not matter.
  const NDArray half = array<double>({1, std::nan(""), 0, 2}, {2, 2});
  CHECK(eigvalsh(half).to_vector<double>() == std::vector<double>{1, 2});
  CHECK(std::isnan(det(nan).item<float>()));
}

TEST_CASE("errors of linear algebra at the call") {
  const NDArray x = ones({2, 3}), square = ones({2, 2}), row = ones({2}), none;
  const auto says = [](const std::function<void()>& call) { return message_of<InvalidArgument>(call); };
  CHECK(says([&] { inv(x); }) == "inv: shape (2, 3); wanted square matrices");
  CHECK(says([&] { det(row); }) == "det: an array of shape (2,); wanted matrices, in at least two axes");
  CHECK(says([&] { svd(ones({})); }) == "svd: an array of shape (); wanted matrices, in at least two axes");
  CHECK(says([&] { solve(square, x[0]); }) ==
        "solve: a has shape (2, 2) and b (3,); wanted (..., m, n) and (..., m, k), or (m)");
  CHECK(says([&] { solve(ones({3, 2, 2}), ones({4, 2, 1})); }).starts_with("solve: shapes (3,) and (4,)"));
  CHECK(says([&] { lstsq(square, square, -1); }) == "lstsq: rtol is -1; wanted 0 or more");
  CHECK(says([&] { qr(x, "r"); }) == "qr: mode is 'r'; wanted 'reduced' or 'complete'");
  CHECK(says([&] { eigh(square, "l"); }) == "eigh: uplo is 'l'; wanted 'L' or 'U'");
  CHECK(says([&] { matrix_norm(square, "3"); }) ==
        "matrix_norm: the norm is '3'; wanted one of 'fro', 'nuc', '1', '-1', '2', '-2', 'inf', '-inf'");
  CHECK(says([&] { cond(x, "1"); }) == "cond: shape (2, 3); wanted square matrices");
  CHECK(says([&] {
          matrix_norm(zeros({0, 2}), "-2");
        }) == "matrix_norm: nothing to choose from in shape (0, 2)");
  CHECK(says([&] {
          matrix_norm(zeros({2, 3, 0}), "-1");
        }) == "matrix_norm: nothing to choose from in shape (2, 3, 0)");
  CHECK(says([&] {
          matrix_norm(zeros({0, 3}), "-inf");
        }) == "matrix_norm: nothing to choose from in shape (0, 3)");
  CHECK(says([&] { vector_norm(zeros({0}), -std::numeric_limits<double>::infinity()); }) ==
        "vector_norm: nothing to choose from in shape (0,)");
  CHECK(says([&] { cond(zeros({0, 0})); }) == "cond: shape (0, 0); wanted matrices with elements");
  CHECK(says([&] { vector_norm(x, 2, {2}); }).starts_with("vector_norm: axis 2"));
  NDArray leaf = ones({3, 2});
  set_requires_grad(leaf);
  CHECK(says([&] {
          qr(leaf, "complete");
        }).starts_with("qr: mode 'complete' has no gradient for shape (3, 2)"));
  CHECK(says([&] { svd(leaf); }).starts_with("svd: full_matrices has no gradient for shape (3, 2)"));
  for (const auto& call : std::vector<std::function<void()>>{[&] { solve(none, square); },
                                                             [&] { solve(square, none); },
                                                             [&] { solve_triangular(square, none); },
                                                             [&] { lstsq(none, square); },
                                                             [&] { inv(none); },
                                                             [&] { pinv(none); },
                                                             [&] { det(none); },
                                                             [&] { slogdet(none); },
                                                             [&] { cholesky(none); },
                                                             [&] { lu(none); },
                                                             [&] { qr(none); },
                                                             [&] { svd(none); },
                                                             [&] { svdvals(none); },
                                                             [&] { eigh(none); },
                                                             [&] { eigvalsh(none); },
                                                             [&] { matrix_power(none, 2); },
                                                             [&] { expm(none); },
                                                             [&] { matrix_rank(none); },
                                                             [&] { matrix_norm(none); },
                                                             [&] { vector_norm(none); },
                                                             [&] { cond(none); }})
    CHECK(says(call).ends_with(
        ": an array is undefined: made without a shape, moved from, or a gradient before backward()"));
}

}  // namespace heddle
