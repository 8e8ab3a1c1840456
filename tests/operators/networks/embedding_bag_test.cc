// embedding_bag and padding indices, compared with loops over the bags.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <message_of.h>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/random.h>

#include "gradient_check.h"

using namespace heddle;
using heddle::test::message_of;

namespace {

using Doubles = std::vector<double>;
using Integers = std::vector<std::int64_t>;

NDArray list(const Integers& numbers) {
  return array<std::int64_t>(numbers, {static_cast<std::int64_t>(numbers.size())});
}
NDArray normal(const Shape& shape, std::uint64_t seed) {
  return Generator(seed).normal(shape, 0, 1, DType::f64);
}

struct Case {
  NDArray weight, indices, offsets;
  EmbeddingBagOptions options;
  NDArray bag() const { return embedding_bag(weight, indices, offsets, options); }
};

// What embedding_bag() is, and the gradients of weight and per_sample_weights for the gradient g of the result.
struct Expected {
  Doubles y, weight, factors;
};
Expected expected(const Case& c, const Doubles& g) {
  const Doubles table = c.weight.to_vector<double>();
  const Integers at = c.indices.astype(DType::i64).to_vector<std::int64_t>();
  const NDArray& given = c.options.per_sample_weights;
  const Doubles factors = given.defined() ? given.to_vector<double>() : Doubles(at.size(), 1);
  Integers begins;
  if (c.offsets.defined()) {
    begins = c.offsets.astype(DType::i64).to_vector<std::int64_t>();
  } else {
    for (std::int64_t b = 0; b < c.indices.shape()[0]; ++b) begins.push_back(b * c.indices.shape()[1]);
  }
  begins.push_back(static_cast<std::int64_t>(at.size()));
  const std::int64_t rows = c.weight.shape()[0];
  const auto width = static_cast<std::size_t>(rows == 0 ? 0 : c.weight.size() / rows);
  const std::int64_t padding = c.options.padding_index ? (*c.options.padding_index + rows) % rows : -1;
  Expected result{Doubles((begins.size() - 1) * width, 0), Doubles(table.size(), 0), Doubles(at.size(), 0)};
  for (std::size_t b = 0; b + 1 < begins.size(); ++b) {
    Integers used;
    for (std::int64_t i = begins[b]; i < begins[b + 1]; ++i)
      if (at[static_cast<std::size_t>(i)] != padding) used.push_back(i);
    for (std::size_t j = 0; j < width && !used.empty(); ++j) {
      const auto value = [&](std::int64_t i) {
        const auto position = static_cast<std::size_t>(i);
        return table[static_cast<std::size_t>(at[position]) * width + j];
      };
      const double number = c.options.mode == BagMode::mean ? static_cast<double>(used.size()) : 1;
      const std::int64_t largest = *std::max_element(
          used.begin(), used.end(), [&](std::int64_t p, std::int64_t q) { return value(p) < value(q); });
      double& y = result.y[b * width + j];
      for (const std::int64_t i : used) {
        if (c.options.mode == BagMode::max && i != largest) continue;
        const auto position = static_cast<std::size_t>(i);
        y += value(i) * factors[position] / number;
        result.weight[static_cast<std::size_t>(at[position]) * width + j] +=
            g.empty() ? 0 : g[b * width + j] * factors[position] / number;
        result.factors[position] += g.empty() ? 0 : g[b * width + j] * value(i);
      }
    }
  }
  return result;
}

void check_near(const Doubles& a, const Doubles& b, double tolerance) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) <= tolerance * (1 + std::abs(b[i])));
}
Doubles doubles(const NDArray& x) { return x.detach().astype(DType::f64).to_vector<double>(); }

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const BagMode mode : {BagMode::sum, BagMode::mean, BagMode::max}) {
    for (const std::optional<std::int64_t> padding :
         {std::optional<std::int64_t>(), std::optional<std::int64_t>(-2)}) {
      for (const Shape& table : {Shape{9, 5}, Shape{9}, Shape{9, 2, 3}, Shape{9, 130}}) {
        const EmbeddingBagOptions options{.mode = mode, .padding_index = padding};
        const NDArray weight = normal(table, 1);
        all.push_back({weight, Generator(2).integers({4, 6}, 0, 9), {}, options});
        all.push_back({weight, Generator(3).integers({11}, 0, 9), list({0, 3, 3, 4, 11}), options});
        all.push_back({weight, list({7, 7, 2}).astype(DType::i32), list({0, 2}).astype(DType::u8), options});
        all.push_back({weight, zeros({0}, DType::i64), list({0, 0}), options});
        all.push_back({weight, zeros({3, 0}, DType::i64), {}, options});
        all.push_back({weight, zeros({0}, DType::i64), zeros({0}, DType::i64), options});
        if (mode != BagMode::sum) continue;
        EmbeddingBagOptions weighted = options;
        weighted.per_sample_weights = normal({4, 6}, 4);
        all.push_back({weight, Generator(5).integers({4, 6}, 0, 9), {}, weighted});
        weighted.per_sample_weights = normal({11}, 6);
        all.push_back({weight, Generator(7).integers({11}, 0, 9), list({0, 3, 3, 4}), weighted});
      }
    }
  }
  return all;
}

}  // namespace

TEST_CASE("bags are sums, means and maxima of their rows, in every floating dtype") {
  for (const Case& c : cases()) {
    check_near(doubles(c.bag()), expected(c, {}).y, 1e-14);
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      Case narrow = c;
      narrow.weight = c.weight.astype(dtype);
      NDArray& factors = narrow.options.per_sample_weights;
      if (factors.defined()) factors = factors.astype(dtype);
      const NDArray y = narrow.bag();
      CHECK(y.dtype() == dtype);
      narrow.weight = narrow.weight.astype(DType::f64);
      if (factors.defined()) factors = factors.astype(DType::f64);
      check_near(doubles(y), expected(narrow, {}).y,
                 dtype == DType::f32   ? 1e-6
                 : dtype == DType::f16 ? 1e-3
                                       : 1e-2);
    }
    if (c.weight.ndim() != 2) continue;
    Case strided = c;
    strided.weight = transpose(transpose(c.weight).copy());
    CHECK(doubles(strided.bag()) == doubles(c.bag()));
  }
}

TEST_CASE("gradients of bags, dense and row-sparse, and of the weights of samples") {
  for (const Case& given : cases()) {
    Case c = given;
    c.weight = c.weight.copy();
    set_requires_grad(c.weight);
    const NDArray g = normal(c.bag().shape(), 8);
    const Expected wanted = expected(given, doubles(g));
    backward(c.bag(), g);
    check_near(doubles(grad(c.weight)), wanted.weight, 1e-13);
    if (c.options.mode != BagMode::max) {
      clear_grad(c.weight);
      c.options.sparse_grad = true;
      backward(c.bag(), g);
      check_near(doubles(to_dense(row_sparse_grad(c.weight))), wanted.weight, 1e-13);
    }
    NDArray& factors = c.options.per_sample_weights;
    if (!factors.defined()) continue;
    factors = factors.copy();
    set_requires_grad(factors);
    for (const bool sparse : {true, false}) {
      clear_grad(c.weight);
      clear_grad(factors);
      c.options.sparse_grad = sparse;
      const NDArray y = c.bag();
      check_near(doubles(y), wanted.y, 1e-13);
      backward(y, g);
      check_near(doubles(sparse ? to_dense(row_sparse_grad(c.weight)) : grad(c.weight)), wanted.weight,
                 1e-13);
      check_near(doubles(grad(factors)), wanted.factors, 1e-13);
    }
  }
}

TEST_CASE("second gradients of bags agree with difference quotients") {
  using In = const std::vector<NDArray>&;
  const NDArray weight = normal({5, 3}, 1), at = list({0, 4, 4, 1, 2}), offsets = list({0, 2, 2}),
                factors = normal({5}, 2);
  for (const BagMode mode : {BagMode::sum, BagMode::mean, BagMode::max}) {
    testing::check_gradients(
        [&](In in) { return sin(embedding_bag(in[0], at, offsets, {.mode = mode, .padding_index = 1})); },
        {weight});
    testing::check_gradients(
        [&](In in) {
          return sin(embedding_bag(in[0], reshape(at, {1, 5}), {}, {.mode = mode}));
        },
        {weight});
  }
  testing::check_gradients(
      [&](In in) {
        return sin(embedding_bag(in[0], at, offsets, {.mode = BagMode::sum, .per_sample_weights = in[1]}));
      },
      {weight, factors});
  testing::check_gradients(
      [&](In in) {
        return sin(embedding_bag(in[0], at, offsets, {.mode = BagMode::sum, .per_sample_weights = factors}));
      },
      {weight});
}

TEST_CASE("per_sample_weights with a gradient take tables of any number of axes, and name their errors") {
  NDArray weight = normal({3, 1, 2, 1, 1, 2, 1, 1}, 1), factors = normal({2, 2}, 2);
  const NDArray at = array<std::int64_t>({2, 0, 2, 1}, {2, 2});
  const Doubles wanted =
      doubles(embedding_bag(weight, at, {}, {.mode = BagMode::sum, .per_sample_weights = factors}));
  set_requires_grad(weight);
  set_requires_grad(factors);
  const EmbeddingBagOptions options{.mode = BagMode::sum, .per_sample_weights = factors};
  const NDArray y = embedding_bag(weight, at, {}, options);
  CHECK(y.shape() == Shape{2, 1, 2, 1, 1, 2, 1, 1});
  check_near(doubles(y), wanted, 1e-13);
  backward(sum(y));
  CHECK(grad(factors).shape() == Shape{2, 2});
  const NDArray outside = array<std::int64_t>({2, 0, 3, 1}, {2, 2});
  CHECK(message_of<InvalidArgument>([&] {
          embedding_bag(weight, outside, {}, options).wait();
        }).find("embedding_bag: index 3 at position") == 0);
}

TEST_CASE("halves add up their gradients as f32") {
  NDArray weight = ones({3, 2}, DType::f16), factors = ones({4000, 1}, DType::f16);
  set_requires_grad(weight);
  const NDArray at = zeros({4000, 1}, DType::i64);
  const NDArray g = full({4000, 2}, 1, DType::f16);
  for (const bool sparse : {false, true}) {
    const EmbeddingBagOptions options{
        .mode = BagMode::sum, .per_sample_weights = factors, .sparse_grad = sparse};
    clear_grad(weight);
    backward(embedding_bag(weight, at, {}, options), g);
    const NDArray made = sparse ? to_dense(row_sparse_grad(weight)) : grad(weight);
    CHECK(made.dtype() == DType::f16);
    CHECK(doubles(made) == Doubles{4000, 4000, 0, 0, 0, 0});
  }
}

TEST_CASE("bags and their gradients are the same bits with any number of workers") {
  for (const bool sparse : {false, true}) {
    const auto run = [&](int workers) {
      Engine engine({.workers = workers});
      const EngineScope scope(engine);
      NDArray weight = Generator(1).normal({300, 150});
      set_requires_grad(weight);
      const NDArray y =
          embedding_bag(weight, Generator(2).integers({500, 9}, 0, 300), {}, {.sparse_grad = sparse});
      backward(y, Generator(3).normal(y.shape()));
      const NDArray made = sparse ? to_dense(row_sparse_grad(weight)) : grad(weight);
      return std::pair(y.to_vector<float>(), made.to_vector<float>());
    };
    const auto one = run(1);
    CHECK(one == run(2));
    CHECK(one == run(4));
  }
}

TEST_CASE("maxima of NaN, and of rows that are all below 0") {
  const double nan = std::nan("");
  const NDArray weight = array<double>({-1, nan, -2, -3}, {2, 2});
  const Doubles y = doubles(embedding_bag(weight, list({1, 0}), list({0}), {.mode = BagMode::max}));
  CHECK(y[0] == -1);
  CHECK(std::isnan(y[1]));
}

TEST_CASE("the padding index of embedding gets no gradient") {
  const NDArray at = array<std::int64_t>({2, 0, 2, 3, 1, 0}, {2, 3});
  for (const bool sparse : {false, true}) {
    NDArray weight = normal({4, 2}, 1);
    set_requires_grad(weight);
    const NDArray y = embedding(weight, at, {.sparse_grad = sparse, .padding_index = -2});
    CHECK(y.to_vector<double>() == take(weight.detach(), at).to_vector<double>());
    backward(y, ones(y.shape(), DType::f64));
    if (sparse)
      CHECK(row_sparse_grad(weight).trimmed().rows().to_vector<std::int64_t>() == Integers{0, 1, 3});
    const NDArray made = sparse ? to_dense(row_sparse_grad(weight)) : grad(weight);
    CHECK(made.to_vector<double>() == Doubles{2, 2, 1, 1, 0, 0, 1, 1});
  }
  using In = const std::vector<NDArray>&;
  const NDArray weight = normal({4, 2}, 2);
  const auto f = [&](In in) {
    return sin(embedding(in[0], at, {.padding_index = 1})) * (at.view_as({2, 3, 1}) != 1);
  };
  testing::check_gradients(f, {weight});
}

TEST_CASE("a changed weight of samples is an error in the backward pass") {
  NDArray weight = normal({3, 2}, 1), factors = ones({2, 2}, DType::f64);
  set_requires_grad(weight);
  const NDArray y = embedding_bag(weight, zeros({2, 2}, DType::i64), {},
                                  {.mode = BagMode::sum, .per_sample_weights = factors});
  factors += 1;
  CHECK_THROWS_AS(backward(sum(y)), Error);
}

TEST_CASE("bags refuse what does not fit, at the call or in the op") {
  const NDArray weight = ones({4, 2}), bags = zeros({2, 3}, DType::i64), flat = zeros({5}, DType::i64);
  const auto why = [](auto f) { return message_of<InvalidArgument>(f); };
  CHECK(why([&] { embedding_bag(weight, flat); }) ==
        "embedding_bag: indices are (5,), without offsets; want (bags, length)");
  CHECK(why([&] { embedding_bag(weight, bags, list({0})); }) ==
        "embedding_bag: indices are (2, 3), with offsets; want one axis");
  CHECK(why([&] { embedding_bag(weight, flat, bags); }) == "embedding_bag: offsets are (2, 3); want (bags,)");
  CHECK(why([&] { embedding_bag(weight, weight); }).find("embedding_bag: indices") == 0);
  CHECK(why([&] {
          embedding_bag(weight, bags, {}, {.per_sample_weights = ones({2, 3})});
        }) == "embedding_bag: per_sample_weights with mode mean; want sum");
  CHECK(why([&] {
          embedding_bag(weight, bags, {}, {.mode = BagMode::sum, .per_sample_weights = ones({6})});
        }) == "embedding_bag: per_sample_weights are f32 (6,); want f32 (2, 3)");
  CHECK(why([&] { embedding_bag(weight, bags, {}, {.mode = BagMode::max, .sparse_grad = true}); }) ==
        "embedding_bag: sparse_grad with mode max; want sum or mean");
  CHECK(why([&] { embedding_bag(weight, bags, {}, {.padding_index = 4}); }) ==
        "embedding_bag: padding_index is 4 for 4 rows; want -4 to 3");
  CHECK(why([&] { embedding(weight, bags, {.padding_index = -5}); }) ==
        "embedding: padding_index is -5 for 4 rows; want -4 to 3");
  CHECK(why([&] { embedding_bag(weight.astype(DType::i32), bags); }) ==
        "embedding_bag: dtype i32; wanted a floating one");
  const auto op = [&](const NDArray& indices, const NDArray& offsets) {
    return why([&] { embedding_bag(weight, indices, offsets).wait(); });
  };
  CHECK(op(list({0, 4}), list({0})) == "embedding_bag: index 4 at position 1 is out of range for size 4");
  CHECK(op(list({-1}), list({0})) == "embedding_bag: index -1 at position 0 is out of range for size 4");
  CHECK(op(flat, list({1, 2})) == "embedding_bag: offsets begin with 1; want 0");
  CHECK(op(flat, list({0, 4, 3})) == "embedding_bag: offsets fall from 4 to 3 at position 2");
  CHECK(op(flat, list({0, 6})) == "embedding_bag: offset 6 at position 1 for 5 indices; want 0 to 5");
  CHECK(op(flat, list({0, -1})) == "embedding_bag: offset -1 at position 1 for 5 indices; want 0 to 5");
  CHECK(why([&] {
          embedding_bag(ones({0, 2}), bags, {}, {.padding_index = 0});
        }) == "embedding_bag: padding_index is 0 for a weight without rows");
}
