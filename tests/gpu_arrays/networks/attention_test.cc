// Attention and rotary embedding on a GPU: values and gradients against the CPU. Both sum in orders of their own, and have
// their own exponentials.
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/attention.h>
#include <heddle/autograd.h>
#include <heddle/elementwise.h>

#include "compare.h"
#include "problems.h"

using namespace heddle;
using namespace heddle::test;

namespace {

using Leaves = std::vector<NDArray>;
using Call = std::function<NDArray(const Leaves&)>;

NDArray fractions(Random& random, const Shape& shape, DType dtype) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < element_count(shape); ++i)
    values.push_back(static_cast<double>(static_cast<std::int64_t>(random())) * 0x1p-63);
  return array(values, shape).astype(dtype);
}

Leaves run(const Call& call, const Leaves& inputs, Device device) {
  Leaves leaves, results;
  for (const NDArray& input : inputs) {
    leaves.push_back(input.copy_to(device));
    if (is_floating(input.dtype())) leaves.back().set_requires_grad();
  }
  const NDArray y = call(leaves);
  Random random(9);
  y.backward(fractions(random, y.shape(), y.dtype()).copy_to(device));
  results.push_back(y.detach());
  for (const NDArray& leaf : leaves) {
    if (is_floating(leaf.dtype())) results.push_back(leaf.grad());
  }
  return results;
}

// Numbers are below 1, weights sum to 1, and sums have at most 300 terms: results of some units differ by at most 300 roundings of
// exponentials, products and sums. Halves are rounded, the CPU's weights too: to 2^-8 of bf16, 2^-11 of f16.
double most_between(DType dtype) {
  if (dtype == DType::f64) return 300 * 0x1p-50;
  if (dtype == DType::f32) return 300 * 0x1p-21;
  return dtype == DType::bf16 ? 16 * 0x1p-8 : 16 * 0x1p-11;
}

void compare_all(const Call& call, const Leaves& inputs) {
  const Leaves here = run(call, inputs, cpu()), there = run(call, inputs, gpu(0));
  for (std::size_t i = 0; i < here.size(); ++i) {
    CAPTURE(i);
    REQUIRE(here[i].shape() == there[i].shape());
    CHECK(there[i].device() == gpu(0));
    const auto a = here[i].astype(DType::f64).to_vector<double>(),
               b = there[i].copy_to(cpu()).astype(DType::f64).to_vector<double>();
    double most = 0;
    for (std::size_t j = 0; j < a.size(); ++j) most = std::fmax(most, std::fabs(a[j] - b[j]));
    for (const double one : b) CHECK(!std::isnan(one));
    CHECK(most <= most_between(here[i].dtype()));
  }
}

struct Sizes {
  std::int64_t batch, heads, kv_heads, queries, keys, features, value_features;
};
Leaves inputs_of(Random& random, const Sizes& s, DType dtype) {
  return {fractions(random, {s.batch, s.heads, s.queries, s.features}, dtype),
          fractions(random, {s.batch, s.kv_heads, s.keys, s.features}, dtype),
          fractions(random, {s.batch, s.kv_heads, s.keys, s.value_features}, dtype)};
}

constexpr DType kFloating[] = {DType::f32, DType::f64, DType::bf16, DType::f16};

TEST_CASE("attention and its gradients on a GPU have the values of the CPU") {
  Random random(1);
  const Sizes all[] = {{2, 2, 2, 5, 7, 4, 3},
                       {1, 4, 2, 33, 40, 33, 40},
                       {1, 1, 1, 70, 65, 8, 130},
                       {2, 2, 1, 1, 100, 16, 8},
                       {1, 1, 1, 40, 20, 130, 2}};
  std::size_t number = 0;
  for (const Sizes& sizes : all) {
    for (const bool causal : {false, true}) {
      const DType dtype = kFloating[number++ % 4];
      CAPTURE(number);
      compare_all([=](const Leaves& in) { return attention(in[0], in[1], in[2], {}, {.causal = causal}); },
                  inputs_of(random, sizes, dtype));
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("masks of attention on a GPU") {
  Random random(2);
  const Sizes sizes{2, 2, 2, 35, 40, 8, 8};
  for (const Shape& shape :
       {Shape{2, 2, 35, 40}, Shape{35, 40}, Shape{2, 1, 1, 40}, Shape{2, 35, 1}, Shape{1}}) {
    for (const bool shows : {false, true}) {
      CAPTURE(shape.to_string());
      CAPTURE(shows);
      Leaves inputs = inputs_of(random, sizes, DType::f32);
      NDArray mask = fractions(random, shape, DType::f32);
      inputs.push_back(shows ? greater(mask, -0.5) : mask);
      compare_all([](const Leaves& in) { return attention(in[0], in[1], in[2], in[3], {.causal = true}); },
                  inputs);
    }
  }
  // A query that sees nothing gets 0.
  const Leaves in = inputs_of(random, {1, 1, 1, 3, 40, 4, 4}, DType::f32);
  const NDArray nothing = zeros({3, 40}, DType::boolean, gpu(0));
  const NDArray y = attention(in[0].copy_to(gpu(0)), in[1].copy_to(gpu(0)), in[2].copy_to(gpu(0)), nothing);
  CHECK(same_bits(zeros({1, 1, 3, 4}), y));
  CHECK(problems() == "");
}

TEST_CASE("attention on a GPU drops the weights that the CPU drops") {
  Random random(3);
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto call = [](const Leaves& in) {
      Generator generator(7);
      return attention(in[0], in[1], in[2], {}, {.dropout = 0.4, .generator = &generator});
    };
    compare_all(call, inputs_of(random, {1, 2, 1, 34, 150, 4, 5}, dtype));
  }
  CHECK(problems() == "");
}

TEST_CASE("attention on a GPU reads views, and takes no rows") {
  Random random(4);
  const NDArray x = fractions(random, {2, 9, 3, 2, 8}, DType::f32);
  const auto call = [](const Leaves& in) {
    const auto part = [&](std::int64_t i) { return in[0].permuted({2, 0, 3, 1, 4})(i); };
    return attention(part(0), part(1), part(2));
  };
  const auto a = call({x}).to_vector<float>(),
             b = call({x.copy_to(gpu(0))}).copy_to(cpu()).to_vector<float>();
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(std::fabs(a[i] - b[i]) < 1e-5f);
  for (const Sizes& sizes :
       {Sizes{1, 1, 1, 0, 3, 4, 4}, Sizes{1, 1, 1, 3, 0, 4, 4}, Sizes{0, 1, 1, 2, 3, 4, 4}})
    compare_all([](const Leaves& in) { return attention(in[0], in[1], in[2]); },
                inputs_of(random, sizes, DType::f32));
  CHECK(problems() == "");
}

TEST_CASE("rotary embedding on a GPU has the values of the CPU") {
  Random random(5);
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const bool interleaved : {false, true}) {
      compare_all([=](const Leaves& in) { return rotary(in[0], {}, {.interleaved = interleaved}); },
                  {fractions(random, {2, 3, 17, 8}, dtype)});
      compare_all(
          [=](const Leaves& in) {
            return rotary(in[0].permuted({1, 0, 2}), in[1], {.interleaved = interleaved});
          },
          {fractions(random, {5, 4, 6}, dtype), array(std::vector<std::int64_t>{3, 900, 7, 0, 44}, {5})});
    }
  }
  CHECK(problems() == "");
}

}  // namespace
