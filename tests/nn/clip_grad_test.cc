// Clipping of gradients: all gradients of a network by one op.
#include <algorithm>
#include <cmath>
#include <limits>
#include <message_of.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/clip_grad.h>
#include <heddle/ops.h>
#include <heddle/random.h>

using namespace heddle;
using namespace heddle::test;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// A leaf with this gradient.
NDArray leaf_with(const NDArray& gradient) {
  NDArray leaf = zeros(gradient.shape(), gradient.dtype());
  set_requires_grad(leaf);
  backward(sum(leaf * gradient));
  return leaf;
}

std::vector<double> doubles(const NDArray& x) { return x.astype(DType::f64).to_vector<double>(); }

double norm_of(const std::vector<NDArray>& arrays) {
  double sum = 0;
  for (const NDArray& array : arrays)
    for (const double one : doubles(array)) sum += one * one;
  return std::sqrt(sum);
}

}  // namespace

TEST_CASE("gradients are scaled to a common norm") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Generator generator(1);
    std::vector<NDArray> gradients, leaves;
    for (const Shape& shape : {Shape{3, 5}, Shape{}, Shape{0, 2}, Shape{70'001}, Shape{1, 2, 3}})
      gradients.push_back(generator.normal(shape, 0, 2, dtype));
    for (const NDArray& gradient : gradients) leaves.push_back(leaf_with(gradient));
    const double before = norm_of(gradients);
    const NDArray norm = clip_grad_norm(leaves, 2.5);
    CHECK(norm.dtype() == dtype);
    CHECK(norm.shape() == Shape{});
    const double tolerance = dtype == DType::f64 ? 1e-13 : 1e-6;
    CHECK(doubles(norm)[0] == doctest::Approx(before).epsilon(tolerance));
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const std::vector<double> got = doubles(grad(leaves[i])), old = doubles(gradients[i]);
      for (std::size_t k = 0; k < got.size(); ++k)
        CHECK(got[k] == doctest::Approx(old[k] * 2.5 / (before + 1e-6)).epsilon(tolerance));
    }
    const std::vector<double> clipped = doubles(grad(leaves[0]));
    CHECK(doubles(clip_grad_norm(leaves, 2.6))[0] == doctest::Approx(2.5).epsilon(1e-5));
    CHECK(doubles(grad(leaves[0])) == clipped);  // a norm below the bound changes nothing
  }
}

TEST_CASE("norms have the same bits with any number of workers") {
  const auto run = [](int workers) {
    Engine engine({.workers = workers});
    const EngineScope scope(engine);
    Generator generator(2);
    std::vector<NDArray> leaves;
    for (const std::int64_t size : {100'003, 7, 7, 20'000, 3, 50'000})
      leaves.push_back(leaf_with(generator.normal({size})));
    std::vector<float> all = clip_grad_norm(leaves, 1).to_vector<float>();
    for (const NDArray& leaf : leaves) {
      const std::vector<float> one = grad(leaf).to_vector<float>();
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  };
  const std::vector<float> one = run(1);
  CHECK(one == run(2));
  CHECK(one == run(4));
}

TEST_CASE("row-sparse gradients are clipped, and shared memory is not changed") {
  NDArray table = zeros({6, 2});
  set_requires_grad(table);
  const NDArray lookups = array<std::int64_t>({4, 1, 4});
  const NDArray shares = array<float>({3, 0, 0, 4, 0, 0}, {3, 2});
  backward(sum(embedding(table, lookups, {.sparse_grad = true}) * shares));
  const RowSparse before = row_sparse_grad(table);
  REQUIRE(before.defined());
  const NDArray dense = leaf_with(full({1}, 12));
  CHECK(clip_grad_norm({table, dense, table}, 1.3).item<float>() == doctest::Approx(13));
  CHECK(to_dense(before)[4].to_vector<float>() == std::vector<float>{3, 0});
  CHECK(to_dense(row_sparse_grad(table))[4].to_vector<float>()[0] == doctest::Approx(0.3f));
  CHECK(to_dense(row_sparse_grad(table))[1].to_vector<float>()[1] == doctest::Approx(0.4f));
  CHECK(grad(dense).item<float>() == doctest::Approx(1.2f));
}

TEST_CASE("gradients on a tape are replaced, not changed") {
  NDArray x = full({2}, 3);
  set_requires_grad(x);
  backward(sum(x * x * x), {.create_graph = true});
  const NDArray recorded = grad(x);
  clip_grad_norm({x}, 1);
  CHECK(recorded.to_vector<float>() == std::vector<float>{27, 27});
  CHECK(grad(x).to_vector<float>()[0] == doctest::Approx(std::sqrt(0.5)));
  clear_grad(x);
}

TEST_CASE("a norm that is not finite leaves the gradients alone, or fails the op") {
  for (const double bad : {kInf, std::nan("")}) {
    const NDArray a = leaf_with(array<float>({1, 2})), b = leaf_with(full({1}, bad));
    CHECK_FALSE(std::isfinite(clip_grad_norm({a, b}, 0.5).item<float>()));
    CHECK(grad(a).to_vector<float>() == std::vector<float>{1, 2});
    const NDArray norm = clip_grad_norm({a, b}, 0.5, {.refuse_nonfinite = true});
    CHECK(message_of<Error>([&] { (void)norm.item<float>(); }).find("the norm of the gradients is") !=
          std::string::npos);
    CHECK_THROWS_AS(grad(a).wait(), Error);
  }
}

TEST_CASE("elements are clipped by value") {
  const NDArray a = leaf_with(array<double>({-3, -0.5, 0, 0.25, 7, kInf})),
                b = leaf_with(full({1}, std::nan("")));
  clip_grad_value(std::vector<NDArray>{a, b}, 0.5);
  CHECK(grad(a).to_vector<double>() == std::vector<double>{-0.5, -0.5, 0, 0.25, 0.5, 0.5});
  CHECK(std::isnan(grad(b).item<float>()));
}

TEST_CASE("leaves without gradients are left out, and what is no leaf is refused") {
  NDArray none = ones({2});
  set_requires_grad(none);
  CHECK(clip_grad_norm({none}, 1).item<float>() == 0);
  CHECK_FALSE(grad(none).defined());
  clip_grad_value(std::vector<Parameter>{{"none", none}}, 1);
  const auto why = [](const std::vector<NDArray>& leaves, double most) {
    return message_of<InvalidArgument>([&] { clip_grad_norm(leaves, most); });
  };
  CHECK(why({none, ones({2})}, 1) ==
        "clip_grad_norm: array 1 is no leaf, and so has no gradient to clip; pass parameters");
  CHECK(why({none}, -1) == "clip_grad_norm: max_norm must be finite and not negative, not -1");
  CHECK(why({}, 1) == "clip_grad_norm: there are no leaves");
  CHECK(why({leaf_with(ones({2}, DType::bf16))}, 1) ==
        "clip_grad_norm: the gradient of leaf 0 is bf16; want f32 or f64");
  CHECK(message_of<InvalidArgument>([] {
          clip_grad_norm(std::vector<Parameter>{{"w", NDArray()}}, 1);
        }) == "clip_grad_norm: parameter 'w' is an undefined array");
}
