// Sample calls of products, linear algebra and random distributions.
#include <heddle/distributions.h>
#include <heddle/linalg.h>
#include <heddle/products.h>

#include "sample_values.h"

namespace heddle::testing {
namespace {

// A positive definite matrix with distinct eigenvalues.
NDArray matrix() { return array<float>({3, 1, 1, 2}, {2, 2}); }

void add_solvers(std::vector<Sample>& to) {
  const NDArray m = matrix(), b = small({2, 3}), tall = small({3, 2}), other = small({3, 2}) + 1;
  to.insert(to.end(),
            {{"solve", {m, b}, {}, [](In v) { return solve(at(v, 0), at(v, 1)); }},
             {"solve_triangular", {m, b}, {}, [](In v) { return solve_triangular(at(v, 0), at(v, 1)); }},
             {"solve_triangular",
              {m, b, false},
              {},
              [](In v) { return solve_triangular(at(v, 0), at(v, 1), false); }},
             {"lstsq", {tall, other}, {}, [](In v) { return lstsq(at(v, 0), at(v, 1)); }},
             {"lstsq", {tall, other, 0.01}, {}, [](In v) { return lstsq(at(v, 0), at(v, 1), 0.01); }},
             {"inv", {m}, {}, [](In v) { return inv(at(v, 0)); }},
             {"pinv", {m}, {}, [](In v) { return pinv(at(v, 0)); }},
             {"pinv", {m, 0.01}, {}, [](In v) { return pinv(at(v, 0), 0.01); }},
             {"det", {m}, {}, [](In v) { return det(at(v, 0)); }},
             {"slogdet", {m}, {}, [](In v) { return slogdet(at(v, 0)); }},
             {"cholesky", {m}, {}, [](In v) { return cholesky(at(v, 0)); }}});
}

void add_factors(std::vector<Sample>& to) {
  const NDArray m = matrix(), tall = small({3, 2}), wide = small({2, 3});
  to.insert(to.end(), {{"lu", {m}, {}, [](In v) { return lu(at(v, 0)); }},
                       {"qr", {m}, {}, [](In v) { return qr(at(v, 0)); }},
                       {"qr", {tall, "complete"}, {}, [](In v) { return qr(at(v, 0), "complete"); }},
                       {"svd", {m}, {}, [](In v) { return svd(at(v, 0)); }},
                       {"svd", {wide, false}, {}, [](In v) { return svd(at(v, 0), false); }},
                       {"svdvals", {m}, {}, [](In v) { return svdvals(at(v, 0)); }},
                       {"eigh", {m}, {}, [](In v) { return eigh(at(v, 0)); }},
                       {"eigh", {m, "U"}, {}, [](In v) { return eigh(at(v, 0), "U"); }},
                       {"eigvalsh", {m}, {}, [](In v) { return eigvalsh(at(v, 0)); }},
                       {"eigvalsh", {m, "U"}, {}, [](In v) { return eigvalsh(at(v, 0), "U"); }}});
}

void add_functions(std::vector<Sample>& to) {
  const NDArray m = matrix();
  to.insert(
      to.end(),
      {{"matrix_power", {m, 3}, {}, [](In v) { return matrix_power(at(v, 0), 3); }},
       {"expm", {m}, {}, [](In v) { return expm(at(v, 0)); }},
       {"matrix_rank", {m}, {}, [](In v) { return matrix_rank(at(v, 0)); }},
       {"matrix_rank", {m, 0.75}, {}, [](In v) { return matrix_rank(at(v, 0), 0.75); }},
       {"matrix_norm", {m}, {}, [](In v) { return matrix_norm(at(v, 0)); }},
       {"matrix_norm", {m, "nuc", true}, {}, [](In v) { return matrix_norm(at(v, 0), "nuc", true); }},
       {"vector_norm", {m}, {}, [](In v) { return vector_norm(at(v, 0)); }},
       {"vector_norm", {m, 1.0, Dims{1}, true}, {}, [](In v) { return vector_norm(at(v, 0), 1, {1}, true); }},
       {"cond", {m}, {}, [](In v) { return cond(at(v, 0)); }},
       {"cond", {m, "1"}, {}, [](In v) { return cond(at(v, 0), "1"); }}});
}

}  // namespace

HEDDLE_SAMPLES(linalg) {
  add_solvers(to);
  add_factors(to);
  add_functions(to);
}

HEDDLE_SAMPLES(products) {
  const NDArray a = small({2, 3}), b = small({2, 3}) + 1, c = small({3, 4});
  const OperatorValue none;
  to.insert(to.end(),
            {{"vecdot", {a, b}, {}, [](In v) { return vecdot(at(v, 0), at(v, 1)); }},
             {"vecdot", {a, b, 0}, {}, [](In v) { return vecdot(at(v, 0), at(v, 1), 0); }},
             {"dot", {a, c}, {}, [](In v) { return dot(at(v, 0), at(v, 1)); }},
             {"inner", {a, b}, {}, [](In v) { return inner(at(v, 0), at(v, 1)); }},
             {"outer", {a, b}, {}, [](In v) { return outer(at(v, 0), at(v, 1)); }},
             {"kron", {a, c}, {}, [](In v) { return kron(at(v, 0), at(v, 1)); }},
             {"cross", {a, b}, {}, [](In v) { return cross(at(v, 0), at(v, 1)); }},
             {"cross", {c, small({3, 1}), 0}, {}, [](In v) { return cross(at(v, 0), at(v, 1), 0); }},
             {"tensordot", {a, b}, {}, [](In v) { return tensordot(at(v, 0), at(v, 1)); }},
             {"tensordot", {a, c, 1}, {}, [](In v) { return tensordot(at(v, 0), at(v, 1), 1); }},
             {"tensordot",
              {a, b, none, Dims{1}, Dims{1}},
              {},
              [](In v) { return tensordot(at(v, 0), at(v, 1), {1}, {1}); }},
             {"einsum", {"ij,jk->ki", std::vector<NDArray>{a, c}}, {}, [](In v) {
                return einsum("ij,jk->ki", list_at(v, 1));
              }}});
}

HEDDLE_SAMPLES(distributions) {
  const Shape shape{2, 3};
  const NDArray row = small({3}), weights = small({2, 3});
  Generator* own = &a_generator();
  to.insert(
      to.end(),
      {{"exponential", {shape}, {}, [=](In) { return exponential(shape); }},
       {"exponential",
        {shape, row, DType::f64, cpu(), own},
        {},
        [=](In v) { return exponential(shape, at(v, 1), DType::f64, cpu(), *own); }},
       {"gamma", {shape, 0.5}, {}, [=](In) { return gamma(shape, 0.5); }},
       {"gamma",
        {shape, row, 2, DType::f16, cpu(), own},
        {},
        [=](In v) { return gamma(shape, at(v, 1), 2, DType::f16, cpu(), *own); }},
       {"beta", {shape, 2, 3}, {}, [=](In) { return beta(shape, 2, 3); }},
       {"beta",
        {shape, 0.5, 0.25, DType::f64, cpu(1), own},
        {},
        [=](In) { return beta(shape, 0.5, 0.25, DType::f64, cpu(1), *own); }},
       {"poisson", {shape, 4}, {}, [=](In) { return poisson(shape, 4); }},
       {"poisson",
        {shape, 40.5, DType::f32, cpu(1), own},
        {},
        [=](In) { return poisson(shape, 40.5, DType::f32, cpu(1), *own); }},
       {"binomial", {shape, 9, 0.5}, {}, [=](In) { return binomial(shape, 9, 0.5); }},
       {"binomial",
        {shape, row, 0.75, DType::u8, cpu(), own},
        {},
        [=](In v) { return binomial(shape, at(v, 1), 0.75, DType::u8, cpu(), *own); }},
       {"truncated_normal", {shape}, {}, [=](In) { return truncated_normal(shape); }},
       {"truncated_normal",
        {shape, 1.0, 2.0, 3.0, 4.0, DType::f64, cpu(1), own},
        {},
        [=](In) { return truncated_normal(shape, 1, 2, 3, 4, DType::f64, cpu(1), *own); }},
       {"categorical", {weights}, {}, [](In v) { return categorical(at(v, 0)); }},
       {"categorical", {weights, 4, own}, {}, [=](In v) { return categorical(at(v, 0), 4, *own); }},
       {"multinomial", {weights, 2}, {}, [](In v) { return multinomial(at(v, 0), 2); }},
       {"multinomial",
        {weights, 5, true, own},
        {},
        [=](In v) { return multinomial(at(v, 0), 5, true, *own); }},
       {"choice", {weights, 4}, {}, [](In v) { return choice(at(v, 0), {4}); }},
       {"choice", {3, 2, false, row, own}, {}, [=](In v) { return choice(3, {2}, false, at(v, 3), *own); }},
       {"shuffle", {weights}, {}, [](In v) { return shuffle(at(v, 0)); }},
       {"shuffle", {weights, 1, own}, {}, [=](In v) { return shuffle(at(v, 0), 1, *own); }}});
}

}  // namespace heddle::testing
