// Linear algebra on a GPU beside the CPU's, by the library and by Heddle's own kernels: results, gradients and errors. Vectors that are
// unique but for their signs are compared without them.
#include <cmath>
#include <functional>
#include <limits>
#include <message_of.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>

#include "families/linalg/cuda/dense.h"
#include "problems.h"
#include "within.h"

using namespace heddle;
using namespace heddle::test;

namespace {

using Arrays = std::vector<NDArray>;
using Function = std::function<NDArray(const Arrays&)>;

namespace dense = cuda_kernels::dense;

struct Chosen {
  explicit Chosen(dense::Way way) { dense::choose(way); }
  ~Chosen() { dense::choose(dense::Way::both); }
};

NDArray random_matrices(Random& random, const Shape& shape, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
  for (double& value : values) value = std::uniform_real_distribution<double>(-1, 1)(random);
  return array<double>(values, shape).astype(dtype);
}

// Matrices whose inverses have elements of about 1 / n, with distinct eigenvalues; positive definite if `symmetric`.
NDArray regular_matrices(Random& random, const Shape& shape, DType dtype, bool symmetric = false) {
  const std::int64_t n = shape[shape.size() - 1];
  NDArray x = random_matrices(random, shape, DType::f64);
  if (symmetric) x = (x + swapaxes(x, -1, -2)) / 2;
  return (x + diag(arange(n, DType::f64) + static_cast<double>(n + 1))).astype(dtype);
}

double tolerance(DType dtype) { return dtype == DType::f64 ? 1e-9 : 2e-4; }

// Results and first gradients of the function on both devices.
Arrays evaluated(const Arrays& inputs, const Function& function, Device device, bool differentiates) {
  Arrays copies;
  for (const NDArray& input : inputs) {
    copies.push_back(input.copy_to(device));
    if (differentiates) copies.back().set_requires_grad();
  }
  const NDArray y = function(copies);
  Arrays all = {y.detach()};
  if (!differentiates) return all;
  const NDArray seed = cos(arange(y.size(), DType::f64)).astype(y.dtype()).reshape(y.shape());
  y.backward(seed.copy_to(device));
  for (const NDArray& copy : copies) all.push_back(copy.grad());
  return all;
}

void compare_with_cpu(const Arrays& inputs, const Function& function, bool differentiates = true) {
  const Arrays here = evaluated(inputs, function, cpu(), differentiates),
               there = evaluated(inputs, function, gpu(0), differentiates);
  for (std::size_t i = 0; i < here.size(); ++i) {
    CAPTURE(i);
    const double scale =
        here[i].size() == 0 ? 1 : std::max(1.0, max(abs(here[i])).astype(DType::f64).item<double>());
    CHECK(within(here[i], there[i], 0, tolerance(here[i].dtype()) * scale));
  }
}

double largest(const NDArray& x) {
  return x.size() == 0 ? 0 : max(abs(x.copy_to(cpu()))).astype(DType::f64).item<double>();
}

// The message of the error of y's op. It is seen then, so that the engine does not log it.
std::string error_of(const NDArray& y) {
  return message_of([&] { y.wait(); });
}

// The same error on both devices, which begins with `text`.
void same_error(const NDArray& x, const std::string& text,
                const std::function<NDArray(const NDArray&)>& call) {
  const std::string here = error_of(call(x)), there = error_of(call(x.copy_to(gpu(0))));
  CAPTURE(text);
  CHECK(here == there);
  CHECK(there.find(text) != std::string::npos);
}

const Shape kSquares[] = {{1, 1}, {2, 2}, {3, 1, 1}, {2, 3, 4, 4}, {33, 33}, {2, 17, 17}};

TEST_CASE("equations, inverses and determinants have the CPU's results and gradients") {
  int seed = 0;
  for (const dense::Way way : {dense::Way::both, dense::Way::own}) {
    const Chosen set(way);
    for (const Shape& shape : kSquares) {
      Random random(static_cast<std::uint64_t>(++seed));
      CAPTURE(shape.to_string());
      CAPTURE(static_cast<int>(way));
      const DType dtype = seed % 2 ? DType::f32 : DType::f64;
      const NDArray a = regular_matrices(random, shape, dtype);
      Shape sides = shape;
      sides[sides.size() - 1] = 1 + seed % 3 * 20;
      const NDArray b = random_matrices(random, sides, dtype);
      compare_with_cpu({a, b}, [](const Arrays& in) { return solve(in[0], in[1]); });
      for (const bool upper : {true, false})
        compare_with_cpu({a, b}, [=](const Arrays& in) { return solve_triangular(in[0], in[1], upper); });
      compare_with_cpu({a}, [](const Arrays& in) { return inv(in[0]); });
      compare_with_cpu({a}, [](const Arrays& in) { return slogdet(in[0])[1]; });
      compare_with_cpu({regular_matrices(random, shape, dtype, true)},
                       [](const Arrays& in) { return cholesky(in[0]); });
      const NDArray parts = random_matrices(random, shape, dtype);
      compare_with_cpu({parts}, [](const Arrays& in) { return det(in[0]); });
      compare_with_cpu(
          {parts}, [](const Arrays& in) { return slogdet(in[0])[0]; }, false);
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("batches of matrices beyond the library's batched routines") {
  Random random(9);
  const NDArray a = regular_matrices(random, {2, 515, 515}, DType::f32),
                b = random_matrices(random, {2, 515, 2}, DType::f32);
  compare_with_cpu(
      {a, b}, [](const Arrays& in) { return solve(in[0], in[1]); }, false);
  compare_with_cpu(
      {a, b}, [](const Arrays& in) { return solve_triangular(in[0], in[1], false); }, false);
  compare_with_cpu(
      {a + swapaxes(a, -1, -2)}, [](const Arrays& in) { return cholesky(in[0]); }, false);
  CHECK(problems() == "");
}

TEST_CASE("lu and qr have the CPU's factors, for wide and tall matrices") {
  int seed = 0;
  for (const Shape& shape :
       {Shape{1, 1}, {2, 3, 5}, {3, 5, 3}, {40, 7}, {7, 40}, {2, 34, 34}, {1, 6}, {6, 1}}) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      Random random(static_cast<std::uint64_t>(++seed));
      CAPTURE(shape.to_string());
      const NDArray x = random_matrices(random, shape, dtype);
      for (const std::size_t part : {0, 1, 2}) {
        CAPTURE(part);
        for (const dense::Way way : {dense::Way::both, dense::Way::own}) {
          const Chosen set(way);
          compare_with_cpu(
              {x}, [=](const Arrays& in) { return lu(in[0])[part]; }, false);
        }
        if (part == 2) continue;
        compare_with_cpu({x}, [=](const Arrays& in) { return qr(in[0])[part]; });
        compare_with_cpu(
            {x}, [=](const Arrays& in) { return qr(in[0], "complete")[part]; }, false);
      }
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("singular values and vectors") {
  int seed = 0;
  for (const Shape& shape :
       {Shape{1, 1}, {2, 3, 5}, {3, 5, 3}, {40, 7}, {2, 7, 40}, {34, 34}, {2, 2, 4, 4}, {1, 6}, {6, 1}}) {
    Random random(static_cast<std::uint64_t>(++seed));
    CAPTURE(shape.to_string());
    const DType dtype = seed % 2 ? DType::f32 : DType::f64;
    const double most = 10 * tolerance(dtype);
    const NDArray x = random_matrices(random, shape, dtype), there = x.copy_to(gpu(0));
    for (const bool full : {false, true}) {
      const Arrays parts = svd(there, full);
      const NDArray &u = parts[0], &s = parts[1], &vt = parts[2];
      CHECK(u.shape() == svd(x, full)[0].shape());
      CHECK(vt.shape() == svd(x, full)[2].shape());
      const NDArray ut = swapaxes(u, -1, -2);
      CHECK(largest(matmul(ut, u) - eye(u.shape()[u.ndim() - 1], dtype, gpu(0))) < most);
      CHECK(largest(matmul(vt, swapaxes(vt, -1, -2)) - eye(vt.shape()[vt.ndim() - 2], dtype, gpu(0))) < most);
      const std::int64_t k = s.shape()[s.ndim() - 1];
      const NDArray left = slice(u, -1, {.end = k}), right = slice(vt, -2, {.end = k});
      CHECK(largest(matmul(left * expand_dims(s, -2), right) - there) < most);
      CHECK(within(svd(x, full)[1], s, 0, most));
    }
    compare_with_cpu({x}, [](const Arrays& in) { return svdvals(in[0]); });
    for (const std::size_t part : {0, 2})
      compare_with_cpu({x}, [=](const Arrays& in) { return square(svd(in[0], false)[part]); });
    compare_with_cpu({x}, [](const Arrays& in) { return pinv(in[0]); });
    compare_with_cpu({x}, [](const Arrays& in) { return matrix_norm(in[0], "nuc"); });
    compare_with_cpu(
        {x}, [](const Arrays& in) { return cond(in[0]); }, false);
    compare_with_cpu(
        {x}, [](const Arrays& in) { return matrix_rank(in[0]).astype(DType::f32); }, false);
    compare_with_cpu({x, random_matrices(random, {shape[shape.size() - 2], 3}, dtype)},
                     [](const Arrays& in) { return lstsq(in[0], in[1]); });
  }
  CHECK(problems() == "");
}

TEST_CASE("eigenvalues and eigenvectors of symmetric matrices") {
  int seed = 0;
  for (const Shape& shape : {Shape{1, 1}, {3, 2, 2}, {2, 2, 5, 5}, {40, 40}, {2, 33, 33}}) {
    Random random(static_cast<std::uint64_t>(++seed));
    CAPTURE(shape.to_string());
    const DType dtype = seed % 2 ? DType::f32 : DType::f64;
    const double most = 100 * tolerance(dtype);
    const NDArray x = regular_matrices(random, shape, dtype, true), there = x.copy_to(gpu(0));
    for (const char* const uplo : {"L", "U"}) {
      const NDArray half = *uplo == 'L' ? tril(there) : triu(there);
      const Arrays parts = eigh(half, uplo);
      const NDArray &w = parts[0], &v = parts[1];
      CHECK(within(eigh(x, uplo)[0], w, 0, most));
      CHECK(largest(matmul(v * expand_dims(w, -2), swapaxes(v, -1, -2)) - there) < most);
      compare_with_cpu({x}, [=](const Arrays& in) { return eigvalsh(in[0], uplo); });
      // Gradients are divided by distances of eigenvalues, which f32 has no digits for if they are many.
      const bool far = dtype == DType::f64 || shape[shape.size() - 1] < 10;
      compare_with_cpu(
          {x}, [=](const Arrays& in) { return square(eigh(in[0], uplo)[1]); }, far);
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("the exponential of matrices of all sizes and kinds") {
  Random random(5);
  const auto near_one = [&](const NDArray& x, bool differentiates = true) {
    compare_with_cpu(
        {x}, [](const Arrays& in) { return expm(in[0]); }, differentiates);
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    near_one(random_matrices(random, {3, 2, 4, 4}, dtype));
    near_one(random_matrices(random, {1, 1}, dtype));
    near_one(random_matrices(random, {2, 18, 18}, dtype) * 3);
    near_one(tril(random_matrices(random, {2, 5, 5}, dtype)) * 4);
    near_one(triu(random_matrices(random, {5, 5}, dtype)) * 4);
  }
  const auto two = [](std::vector<double> values) { return array<double>(values, {2, 2}); };
  const NDArray turn = two({0, -300, 300, 0}), far = two({1, 1e200, 0, 1}), steep = two({0, 1e15, 0, -1000});
  for (const NDArray& x : {turn, far, steep, two({1e3, -1e3, 1e3, -1e3}), two({0, -1e9, 1e9, 0})}) {
    CHECK(within(expm(x), expm(x.copy_to(gpu(0))), 1e-6, 0));
  }
  // Matrices of one batch have different numbers of squarings.
  const NDArray many =
      stack({two({0, 0.1, 0.2, 0}), turn, two({1, std::nan(""), 0, 1}), zeros({2, 2}, DType::f64)});
  CHECK(within(expm(many), expm(many.copy_to(gpu(0))), 0, 1e-10));
  CHECK(problems() == "");
}

TEST_CASE("second gradients") {
  Random random(6);
  const NDArray x = regular_matrices(random, {2, 4, 4}, DType::f64);
  Arrays found;
  for (const Device device : {cpu(), gpu(0)}) {
    NDArray leaf = x.copy_to(device);
    leaf.set_requires_grad();
    const NDArray first = grad({sum(det(leaf))}, {leaf}, {.create_graph = true})[0];
    found.push_back(grad({sum(square(first))}, {leaf})[0]);
  }
  CHECK(within(found[0], found[1], 1e-9, 1e-6));
  CHECK(problems() == "");
}

TEST_CASE("matrices without elements") {
  for (const Shape& shape : {Shape{0, 0}, {2, 0, 0}, {0, 3, 3}, {0, 4}, {4, 0}, {2, 0, 3}, {2, 3, 0}}) {
    CAPTURE(shape.to_string());
    const NDArray x = zeros(shape, DType::f64);
    for (const std::size_t part : {0, 1, 2}) {
      compare_with_cpu(
          {x}, [=](const Arrays& in) { return svd(in[0])[part]; }, false);
      compare_with_cpu(
          {x}, [=](const Arrays& in) { return svd(in[0], false)[part]; }, false);
      compare_with_cpu(
          {x}, [=](const Arrays& in) { return lu(in[0])[part]; }, false);
      if (part < 2)
        compare_with_cpu(
            {x}, [=](const Arrays& in) { return qr(in[0], "complete")[part]; }, false);
      if (part < 2)
        compare_with_cpu(
            {x}, [=](const Arrays& in) { return qr(in[0])[part]; }, false);
    }
    compare_with_cpu(
        {x}, [](const Arrays& in) { return pinv(in[0]); }, false);
    compare_with_cpu(
        {x, ones({shape[shape.size() - 2], 2}, DType::f64)},
        [](const Arrays& in) { return lstsq(in[0], in[1]); }, false);
    if (shape[shape.size() - 1] != shape[shape.size() - 2]) continue;
    for (const auto& function : std::vector<NDArray (*)(const NDArray&)>{
             [](const NDArray& m) { return inv(m); }, [](const NDArray& m) { return det(m); },
             [](const NDArray& m) { return slogdet(m)[1]; }, [](const NDArray& m) { return cholesky(m); },
             [](const NDArray& m) { return expm(m); }, [](const NDArray& m) { return eigvalsh(m); }})
      compare_with_cpu({x}, [=](const Arrays& in) { return function(in[0]); });
    compare_with_cpu({x, x}, [](const Arrays& in) { return solve(in[0], in[1]); });
    compare_with_cpu({x, x}, [](const Arrays& in) { return solve_triangular(in[0], in[1]); });
  }
  CHECK(problems() == "");
}

// Identity matrices, except that all elements of the matrix number `wrong` are `value`.
NDArray identities(Shape shape, std::int64_t wrong, double value) {
  const std::int64_t n = shape[shape.size() - 1], count = element_count(shape) / (n * n);
  NDArray x = broadcast_to(eye(n, DType::f64), {count, n, n}).copy();
  x[wrong].fill(value);
  return reshape(x, shape);
}

TEST_CASE("errors that values cause have the CPU's words and name the matrix") {
  for (const dense::Way way : {dense::Way::both, dense::Way::own}) {
    const Chosen set(way);
    const NDArray x = identities({2, 3, 4, 4}, 4, 1), one = ones({2, 2});
    same_error(x, "matrix (1, 1) is singular: element (1, 1)", [](const NDArray& m) {
      return solve(m, ones({4, 1}, DType::f64, m.device()));
    });
    same_error(x, "matrix (1, 1) is singular", [](const NDArray& m) { return inv(m); });
    same_error(x, "matrix (1, 1) is singular", [](const NDArray& m) {
      return solve(m, zeros({4, 0}, DType::f64, m.device()));
    });
    same_error(one, "inv: the matrix is singular", [](const NDArray& m) { return inv(m); });
    same_error(zeros({5, 3, 3}), "inv: matrix 0 is singular: element (0, 0)",
               [](const NDArray& m) { return inv(m); });
    same_error(identities({3, 2, 2}, 1, 0), "solve_triangular: matrix 1 is singular: element (0, 0)",
               [](const NDArray& m) {
                 return solve_triangular(m, ones({2, 1}, DType::f64, m.device()));
               });
    same_error(identities({3, 2, 2}, 2, 1), "cholesky: matrix 2 is not positive definite: its first 2 rows",
               [](const NDArray& m) { return cholesky(m); });
    same_error(-one, "cholesky: the matrix is not positive definite: its first 1 rows",
               [](const NDArray& m) { return cholesky(m); });
  }
  const NDArray nan = identities({4, 2, 2}, 3, std::nan(""));
  const NDArray infinite = identities({2, 2}, 0, std::numeric_limits<double>::infinity());
  for (const NDArray& x : {nan, infinite}) {
    const std::string text = "has an element that is not finite";
    same_error(x, "svd: ", [](const NDArray& m) { return svd(m)[1]; });
    same_error(x, text, [](const NDArray& m) { return svd(m)[1]; });
    same_error(x, text, [](const NDArray& m) { return eigh(m)[0]; });
    same_error(x, text, [](const NDArray& m) { return matrix_rank(m); });
    same_error(x, text, [](const NDArray& m) { return lstsq(m, ones({2}, DType::f64, m.device())); });
    same_error(x, text, [](const NDArray& m) {
      return lstsq(ones({3, 2}, DType::f64, m.device()),
                   ones({3, 1}, DType::f64, m.device()) * slice(m.reshape({-1}), 0, {.begin = m.size() - 1}));
    });
  }
  CHECK(problems() == "");
}

TEST_CASE("values that are not finite, and zeros, give what the CPU gives") {
  const NDArray x = identities({3, 2, 2}, 1, 1), nan = identities({3, 2, 2}, 1, std::nan(""));
  const NDArray half = array<double>({1, std::nan(""), 0, 2}, {2, 2});
  for (const dense::Way way : {dense::Way::both, dense::Way::own}) {
    const Chosen set(way);
    compare_with_cpu({x}, [](const Arrays& in) { return det(in[0]); });
    compare_with_cpu(
        {x}, [](const Arrays& in) { return slogdet(in[0])[0]; }, false);
    compare_with_cpu(
        {x}, [](const Arrays& in) { return slogdet(in[0])[1]; }, false);
    compare_with_cpu(
        {nan}, [](const Arrays& in) { return inv(in[0]); }, false);
    compare_with_cpu(
        {nan}, [](const Arrays& in) { return det(in[0]); }, false);
    compare_with_cpu(
        {x}, [](const Arrays& in) { return cond(in[0], "1"); }, false);
  }
  compare_with_cpu(
      {nan}, [](const Arrays& in) { return expm(in[0]); }, false);
  CHECK(eigvalsh(half.copy_to(gpu(0))).to_vector<double>() == std::vector<double>{1, 2});
  CHECK(problems() == "");
}

TEST_CASE("multinomial and choice draw what the CPU draws") {
  int seed = 0;
  for (const Shape& shape : {Shape{1}, {5}, {3, 40}, {2, 2, 7}, {2, 1030}, {0, 4}, {2500}}) {
    Random random(static_cast<std::uint64_t>(++seed));
    CAPTURE(shape.to_string());
    const std::int64_t n = shape[shape.size() - 1];
    const NDArray weights =
        maximum(random_matrices(random, shape, seed % 2 ? DType::f32 : DType::f64), 0) + (seed % 3) * 0.01;
    NDArray some = weights.copy();
    slice(some, -1, {.end = 1}).fill(1);
    for (const bool replacement : {true, false}) {
      const std::int64_t samples = replacement ? 70 : seed % 3 ? n : 1;
      Generator a(7), b(7);
      CHECK(same_bits(multinomial(some, samples, replacement, a),
                      multinomial(some.copy_to(gpu(0)), samples, replacement, b)));
    }
  }
  const NDArray p = array<double>({0.5, 0, 0.25, 0.25});
  Generator a(3), b(3);
  CHECK(same_bits(choice(4, {3}, false, p, a), choice(4, {3}, false, p.copy_to(gpu(0)), b)));
  const NDArray entries = arange(12, DType::f32).reshape({4, 3});
  CHECK(same_bits(choice(entries, {6}, true, p, a),
                  choice(entries.copy_to(gpu(0)), {6}, true, p.copy_to(gpu(0)), b)));
  CHECK(problems() == "");
}

TEST_CASE("weights that multinomial refuses") {
  const double inf = std::numeric_limits<double>::infinity(), huge = std::numeric_limits<double>::max();
  const auto rows = [](std::vector<double> values) {
    const std::int64_t n = static_cast<std::int64_t>(values.size()) / 2;
    return array<double>(values, {2, n});
  };
  for (const bool replacement : {true, false}) {
    const auto drawn = [=](const NDArray& x) { return multinomial(x, 2, replacement); };
    same_error(rows({1, 1, 1, -1}), "multinomial: row 1 has the weight -1", drawn);
    same_error(rows({1, std::nan(""), -1, 1}), "multinomial: row 0 has the weight nan", drawn);
    same_error(rows({1, 1, inf, 1}), "multinomial: row 1 has the weight inf", drawn);
    same_error(rows({1, 1, huge, huge}), "multinomial: row 1 has weights with an infinite sum", drawn);
    same_error(rows({1, 1, 0, 0}), "multinomial: row 1 has 0 weights above 0; wanted at least", drawn);
  }
  same_error(rows({1, 0, 1, 1}), "multinomial: row 0 has 1 weights above 0; wanted at least 2",
             [](const NDArray& x) { return multinomial(x, 2, false); });
  CHECK(problems() == "");
}

}  // namespace
