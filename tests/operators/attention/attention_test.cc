// Attention, compared with a serial computation of all scores.
#include <cmath>
#include <cstring>
#include <limits>
#include <message_of.h>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/multiply_adds.h>
#include <heddle/ops.h>
#include <heddle/random.h>

#include "arguments.h"
#include "gradient_check.h"

using namespace heddle;
using heddle::test::message_of;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

NDArray normal(const Shape& shape, std::uint64_t seed) {
  return Generator(seed).normal(shape, 0, 1, DType::f64);
}
NDArray coins(const Shape& shape, std::uint64_t seed, double probability = 0.7) {
  return Generator(seed).bernoulli(shape, probability, DType::f64) != 0;
}

struct Problem {
  std::int64_t batch, heads, kv_heads, queries, keys, features, values;
};

struct Inputs {
  NDArray query, key, value;
};
Inputs inputs_of(const Problem& p, std::uint64_t seed = 1) {
  return {normal({p.batch, p.heads, p.queries, p.features}, seed),
          normal({p.batch, p.kv_heads, p.keys, p.features}, seed + 1),
          normal({p.batch, p.kv_heads, p.keys, p.values}, seed + 2)};
}

// All scores of one query at a time.
NDArray serial(const Problem& p, const Inputs& in, const NDArray& mask, const AttentionOptions& options) {
  const auto q = in.query.to_vector<double>(), k = in.key.to_vector<double>(),
             v = in.value.to_vector<double>();
  std::vector<double> added(static_cast<std::size_t>(p.batch * p.heads * p.queries * p.keys), 0);
  const Shape all{p.batch, p.heads, p.queries, p.keys};
  if (mask.defined() && mask.dtype() == DType::boolean)
    added = broadcast_to(where(mask, zeros({}, DType::f64), -kInfinity), all).to_vector<double>();
  else if (mask.defined())
    added = broadcast_to(mask, all).to_vector<double>();
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(p.features)));
  std::vector<double> y;
  for (std::int64_t row = 0; row < p.batch * p.heads * p.queries; ++row) {
    const std::int64_t i = row % p.queries, head = row / p.queries % p.heads, n = row / p.queries / p.heads;
    const std::int64_t matrix = n * p.kv_heads + head / (p.heads / p.kv_heads);
    double total = 0;
    std::vector<double> result(static_cast<std::size_t>(p.values), 0);
    for (std::int64_t j = 0; j < p.keys; ++j) {
      if (options.causal && j > p.keys - p.queries + i) break;
      double score = added[static_cast<std::size_t>(row * p.keys + j)];
      for (std::int64_t d = 0; d < p.features; ++d)
        score += scale * q[static_cast<std::size_t>(row * p.features + d)] *
                 k[static_cast<std::size_t>((matrix * p.keys + j) * p.features + d)];
      const double weight = std::exp(score);
      total += weight;
      for (std::int64_t e = 0; e < p.values; ++e)
        result[static_cast<std::size_t>(e)] +=
            weight * v[static_cast<std::size_t>((matrix * p.keys + j) * p.values + e)];
    }
    for (const double one : result) y.push_back(total == 0 ? 0 : one / total);
  }
  return array(y, {p.batch, p.heads, p.queries, p.values});
}

// attention() composed of operators, whose gradients are right. Each query has to see at least one key.
NDArray composed(const NDArray& query, const NDArray& key, const NDArray& value, const NDArray& mask,
                 bool causal) {
  const std::int64_t group = query.shape()[1] / key.shape()[1], queries = query.shape()[2],
                     keys = key.shape()[2];
  const NDArray k = repeat(key, group, 1), v = repeat(value, group, 1);
  NDArray scores = matmul(query, swapaxes(k, 2, 3)) * (1 / std::sqrt(static_cast<double>(query.shape()[3])));
  if (mask.defined())
    scores = mask.dtype() == DType::boolean ? where(mask, scores, -kInfinity) : scores + mask;
  if (causal) scores = where(tril(ones({queries, keys}, DType::boolean), keys - queries), scores, -kInfinity);
  return matmul(softmax(scores), v);
}

void check_close(const NDArray& a, const NDArray& b, double tolerance) {
  REQUIRE(a.shape() == b.shape());
  const std::vector<double> x = a.astype(DType::f64).to_vector<double>(),
                            y = b.astype(DType::f64).to_vector<double>();
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = std::abs(x[i] - y[i]) / (1 + std::abs(y[i]));
    worst = error <= worst ? worst : error;  // NaN is the worst
  }
  CHECK(worst <= tolerance);
}

// A copy of x (N, H, T, D) whose rows lie as in (N, T, H, D).
NDArray with_heads_inside(const NDArray& x) { return swapaxes(swapaxes(x, 1, 2).copy(), 1, 2); }

std::vector<NDArray> gradients_of(const testing::Function& f, const std::vector<NDArray>& inputs) {
  std::vector<NDArray> leaves;
  for (const NDArray& input : inputs) {
    leaves.push_back(input.copy());
    set_requires_grad(leaves.back());
  }
  const NDArray y = f(leaves);
  return grad({y}, leaves, {.seeds = {Generator(9).normal(y.shape(), 0, 1, y.dtype())}});
}

using In = const std::vector<NDArray>&;

}  // namespace

TEST_CASE("attention is softmax(q k^T) v, whatever the shapes, the masks and the strides") {
  for (const Problem& p : {Problem{2, 4, 2, 5, 7, 4, 3}, Problem{1, 1, 1, 1, 1, 1, 1},
                           Problem{1, 2, 2, 70, 130, 8, 5}, Problem{2, 6, 1, 65, 65, 3, 4},
                           Problem{1, 2, 1, 3, 300, 16, 16}, Problem{1, 1, 1, 200, 129, 5, 40}}) {
    CAPTURE(p.queries);
    CAPTURE(p.keys);
    const Inputs in = inputs_of(p);
    const NDArray masks[] = {
        {},
        coins({p.queries, p.keys}, 4),
        coins({p.batch, 1, 1, p.keys}, 5),
        coins({p.batch, p.heads, p.queries, p.keys}, 6),
        coins({1}, 7),
        transpose(coins({p.keys, p.queries}, 8)),
        coins({p.heads, p.queries, 1}, 9, 0.5),
        normal({p.keys}, 10),
        normal({p.heads, p.queries, p.keys}, 11),
        transpose(normal({p.keys, p.queries}, 12)),
        where(coins({p.queries, p.keys}, 13), normal({p.queries, p.keys}, 14), -kInfinity)};
    for (const NDArray& mask : masks)
      for (const AttentionOptions& options :
           {AttentionOptions{}, AttentionOptions{.causal = true}, AttentionOptions{.scale = 0.3}}) {
        const NDArray expected = serial(p, in, mask, options);
        check_close(attention(in.query, in.key, in.value, mask, options), expected, 1e-12);
        check_close(attention(with_heads_inside(in.query), with_heads_inside(in.key),
                              with_heads_inside(in.value), mask, options),
                    expected, 1e-12);
        const auto narrow = [](const NDArray& x) {
          return x.defined() && x.dtype() == DType::f64 ? x.astype(DType::f32) : x;
        };
        check_close(attention(narrow(in.query), narrow(in.key), narrow(in.value), narrow(mask), options),
                    expected, 1e-5);
      }
  }
}

TEST_CASE("rows that are columns, halves, and large scores") {
  const Problem p{2, 2, 1, 6, 9, 4, 4};
  const Inputs in = inputs_of(p);
  const auto columns = [](const NDArray& x) { return swapaxes(swapaxes(x, 2, 3).copy(), 2, 3); };
  const NDArray expected = serial(p, in, {}, {});
  check_close(attention(columns(in.query), columns(in.key), columns(in.value)), expected, 1e-12);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const NDArray y =
        attention(in.query.astype(dtype), in.key.astype(dtype), in.value.astype(dtype), zeros({9}, dtype));
    CHECK(y.dtype() == dtype);
    check_close(y, expected, dtype == DType::f16 ? 5e-3 : 4e-2);
  }
  const NDArray large = attention((in.query * 1e3).astype(DType::f32), (in.key * 1e3).astype(DType::f32),
                                  in.value.astype(DType::f32));
  check_close(large, attention(in.query * 1e3, in.key * 1e3, in.value), 1e-4);
}

TEST_CASE("a query that sees nothing gets 0, and gives no gradient") {
  const Problem p{2, 2, 1, 70, 140, 4, 3};
  const Inputs in = inputs_of(p);
  const NDArray blind = arange(70, DType::i64) == 3, rows = reshape(blind, {70, 1});
  const NDArray sees = logical_not(broadcast_to(rows, {70, 140})).copy(),
                added = where(sees, normal({70, 140}, 4), -kInfinity);
  for (const NDArray& mask :
       {sees, added, logical_not(rows).copy(), where(rows, full({}, -kInfinity, DType::f64), 0.5)}) {
    const NDArray y = attention(in.query, in.key, in.value, mask);
    check_close(y, serial(p, in, mask, {}), 1e-12);
    CHECK(sum(abs(y(kAll, kAll, 3))).item<double>() == 0);
    const auto made =
        gradients_of([&](In v) { return attention(v[0], v[1], v[2], mask); }, {in.query, in.key, in.value});
    for (const NDArray& one : made) CHECK(all(isfinite(one)).item<bool>());
    CHECK(sum(abs(made[0](kAll, kAll, 3))).item<double>() == 0);
  }
  const auto of_mask =
      gradients_of([&](In v) { return attention(in.query, in.key, in.value, v[0]); }, {added});
  CHECK(all(isfinite(of_mask[0])).item<bool>());
  CHECK(sum(abs(where(sees, 0.0, of_mask[0]))).item<double>() == 0);
  const Problem few{1, 2, 2, 9, 4, 3, 2};  // causal: the first five queries see nothing
  const Inputs less = inputs_of(few);
  const NDArray y = attention(less.query, less.key, less.value, {}, {.causal = true});
  check_close(y, serial(few, less, {}, {.causal = true}), 1e-12);
  CHECK(sum(abs(y(kAll, kAll, Slice{0, 5}))).item<double>() == 0);
  testing::check_gradients([](In v) { return attention(v[0], v[1], v[2], {}, {.causal = true}); },
                           {less.query, less.key, less.value});
}

TEST_CASE("gradients of rows whose scores are all of large magnitude") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    NDArray query = normal({1, 1, 2, 4}, 1).astype(dtype), key = normal({1, 1, 8, 4}, 2).astype(dtype),
            value = normal({1, 1, 8, 3}, 3).astype(dtype);
    NDArray mask = where(expand_dims(arange(2), 1) < 1, zeros({2, 8}, dtype), -1e9).astype(dtype);
    for (NDArray* const one : {&query, &key, &value, &mask}) set_requires_grad(*one);
    const std::vector<NDArray> leaves{query, key, value, mask};
    const std::vector<NDArray> first = grad({sum(attention(query, key, value, mask))}, leaves);
    CHECK(sum(first[2].slice(3, {0, 1})).astype(DType::f64).item<double>() ==
          doctest::Approx(2.0).epsilon(1e-5));
    const std::vector<NDArray> composed =
        grad({sum(attention(query, key, value, mask))}, leaves, {.create_graph = true});
    for (std::size_t i = 0; i < first.size(); ++i)
      check_close(first[i], composed[i].detach(), dtype == DType::f32 ? 1e-5 : 1e-13);
  }
}

TEST_CASE("arrays without elements") {
  for (const Problem& p :
       {Problem{2, 2, 1, 3, 0, 4, 5}, Problem{2, 2, 1, 0, 3, 4, 5}, Problem{0, 2, 1, 3, 3, 4, 5},
        Problem{2, 2, 1, 3, 4, 0, 5}, Problem{2, 2, 1, 3, 4, 5, 0}, Problem{2, 0, 1, 3, 4, 5, 2}}) {
    for (const bool causal : {false, true}) {
      const Inputs in = inputs_of(p);
      for (const NDArray& mask : {NDArray(), normal({p.queries, p.keys}, 5)}) {
        const auto f = [&](In v) {
          return attention(v[0], v[1], v[2], mask.defined() ? v[3] : mask, {.causal = causal});
        };
        std::vector<NDArray> all{in.query, in.key, in.value};
        if (mask.defined()) all.push_back(mask);
        const NDArray y = f(all);
        CHECK(y.shape() == Shape{p.batch, p.heads, p.queries, p.values});
        for (const double one : y.to_vector<double>()) CHECK(std::isfinite(one));
        if (p.keys == 0)
          for (const double one : y.to_vector<double>()) CHECK(one == 0);
        const auto made = gradients_of(f, all);
        for (std::size_t i = 0; i < all.size(); ++i) {
          CHECK(made[i].shape() == all[i].shape());
          for (const double one : made[i].to_vector<double>()) CHECK(std::isfinite(one));
        }
        testing::check_second_gradients(f, all, 1e-5, 1e-5);
      }
    }
  }
}

TEST_CASE("gradients of attention agree with finite differences") {
  const Problem p{2, 4, 2, 3, 5, 3, 2};
  const Inputs in = inputs_of(p);
  const std::vector<NDArray> three{in.query, in.key, in.value};
  testing::check_gradients([](In v) { return attention(v[0], v[1], v[2]); }, three);
  testing::check_gradients(
      [](In v) { return attention(v[0], v[1], v[2], {}, {.causal = true, .scale = 0.7}); }, three);
  const NDArray visible = coins({2, 1, 3, 5}, 4);
  testing::check_gradients([&](In v) { return attention(v[0], v[1], v[2], visible); }, three);
  for (const Shape& shape :
       {Shape{3, 5}, Shape{5}, Shape{4, 3, 1}, Shape{2, 1, 1, 5}, Shape{2, 4, 3, 5}, Shape{}}) {
    CAPTURE(shape.to_string());
    std::vector<NDArray> with_mask = three;
    with_mask.push_back(normal(shape, 5));
    testing::check_gradients([](In v) { return attention(v[0], v[1], v[2], v[3], {.causal = true}); },
                             with_mask);
  }
  testing::check_gradients([&](In v) { return attention(in.query, in.key, in.value, v[0]); },
                           {normal({5}, 6)});
  testing::check_gradients([](In v) { return attention(v[0], v[0], v[0]); }, {normal({1, 2, 4, 3}, 7)});
}

TEST_CASE("gradients over many blocks are those of the composition") {
  for (const Problem& p :
       {Problem{1, 2, 1, 130, 300, 8, 5}, Problem{1, 1, 1, 70, 2100, 3, 3}, Problem{5, 8, 4, 70, 70, 4, 6}}) {
    const Inputs in = inputs_of(p);
    for (const bool causal : {false, true}) {
      for (const NDArray& mask : {coins({p.batch, 1, 1, p.keys}, 4), coins({p.queries, p.keys}, 5)}) {
        const NDArray safe = logical_or(mask, arange(p.keys, DType::i64) == 0);
        const std::vector<NDArray> all{in.query, in.key, in.value};
        const auto ours =
            gradients_of([&](In v) { return attention(v[0], v[1], v[2], safe, {.causal = causal}); }, all);
        const auto theirs = gradients_of([&](In v) { return composed(v[0], v[1], v[2], safe, causal); }, all);
        for (std::size_t i = 0; i < 3; ++i) check_close(ours[i], theirs[i], 1e-11);
      }
      for (const Shape& shape :
           {Shape{p.queries, p.keys}, Shape{p.batch, 1, 1, p.keys}, Shape{p.heads, p.queries, 1}}) {
        const std::vector<NDArray> all{in.query, in.key, in.value, normal(shape, 6)};
        const auto ours =
            gradients_of([&](In v) { return attention(v[0], v[1], v[2], v[3], {.causal = causal}); }, all);
        const auto theirs = gradients_of([&](In v) { return composed(v[0], v[1], v[2], v[3], causal); }, all);
        for (std::size_t i = 0; i < 4; ++i) check_close(ours[i], theirs[i], 1e-11);
      }
    }
  }
}

TEST_CASE("the last queries, which see all keys, are those of the whole sequence") {
  const Problem p{2, 4, 2, 150, 150, 8, 8};
  const Inputs in = inputs_of(p);
  const NDArray whole = attention(in.query, in.key, in.value, {}, {.causal = true});
  for (const std::int64_t begin : {149, 100, 3}) {
    const Slice last{begin, 150};
    check_close(attention(in.query(kAll, kAll, last), in.key, in.value, {}, {.causal = true}),
                whole(kAll, kAll, last).copy(), 1e-12);
  }
  const Slice first{0, 20};
  check_close(attention(in.query(kAll, kAll, first), in.key(kAll, kAll, first), in.value(kAll, kAll, first),
                        {}, {.causal = true}),
              whole(kAll, kAll, first).copy(), 1e-12);
}

TEST_CASE("attention and its gradients are the same bits with any number of workers") {
  const auto program = [](const EngineOptions& options) {
    Engine engine(options);
    const EngineScope scope(engine);
    std::vector<NDArray> parts;
    for (const Problem& p : {Problem{3, 4, 2, 100, 200, 16, 16}, Problem{1, 2, 1, 65, 700, 8, 8}}) {
      const Inputs in = inputs_of(p);
      const std::vector<NDArray> all{in.query.astype(DType::f32), in.key.astype(DType::f32),
                                     in.value.astype(DType::f32),
                                     normal({p.queries, p.keys}, 5).astype(DType::f32)};
      const auto f = [](In v) { return attention(rotary(v[0]), v[1], v[2], v[3], {.causal = true}); };
      parts.push_back(flatten(f(all), 0));
      for (const NDArray& one : gradients_of(f, all)) parts.push_back(flatten(one, 0));
    }
    return concat(parts).to_vector<float>();
  };
  const std::vector<float> expected = program({.scheduler = Scheduler::naive});
  for (const int workers : {1, 2, 4}) {
    const std::vector<float> got = program({.workers = workers});
    REQUIRE(got.size() == expected.size());
    CHECK(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("dropout drops weights, and the gradients of what it drops") {
  const std::int64_t queries = 70, keys = 150;
  const Problem p{2, 2, 1, queries, keys, 4, keys};
  Inputs in = inputs_of(p);
  in.value = broadcast_to(eye(keys, DType::f64), {2, 1, keys, keys}).copy();
  Generator generator(5);
  const AttentionOptions options{.causal = true, .dropout = 0.3, .generator = &generator};
  const NDArray weights = attention(in.query, in.key, in.value, {}, {.causal = true});
  const NDArray dropped = attention(in.query, in.key, in.value, {}, options);
  const NDArray other = attention(in.query, in.key, in.value, {}, options);
  CHECK(any(dropped != other).item<bool>());
  const NDArray is_kept = dropped != 0;
  check_close(dropped, where(is_kept, weights / 0.7, 0.0), 1e-12);
  const double share =
      sum(cast(is_kept, DType::f64)).item<double>() / sum(cast(weights != 0, DType::f64)).item<double>();
  CHECK(share == doctest::Approx(0.7).epsilon(0.02));
  // The words are those of the generator: 48 blocks a query.
  for (const std::uint32_t query : {0, 69}) {
    const bool is_there = dropped(0, 0, query, 0).item<double>() != 0;
    CHECK(is_there == (philox({query * 48, 0, 0, 0}, {5, 0})[0] >= 0.3 * 0x1p32));
  }
  CHECK(sum(attention(in.query, in.key, in.value, {}, {.dropout = 1})).item<double>() == 0);
  const auto f = [](In v) {
    Generator same(6);
    return attention(v[0], v[1], v[2], v.size() > 3 ? v[3] : NDArray(), {.dropout = 0.4, .generator = &same});
  };
  const Inputs few = inputs_of({2, 4, 2, 3, 5, 3, 2});
  testing::check_gradients(f, {few.query, few.key, few.value});
  testing::check_gradients(f, {few.query, few.key, few.value, normal({3, 5}, 7)});
  const auto ours = gradients_of(
      [&](In v) {
        Generator same(5);
        return attention(v[0], v[1], v[2], {}, {.causal = true, .dropout = 0.3, .generator = &same});
      },
      {in.query, in.key, in.value});
  const auto theirs = gradients_of(
      [&](In v) {
        const NDArray scores = matmul(v[0], swapaxes(v[1], 2, 3)) * 0.5;
        const NDArray visible = tril(ones({queries, keys}, DType::boolean), keys - queries);
        return matmul(where(is_kept, softmax(where(visible, scores, -kInfinity)) / 0.7, 0.0), v[2]);
      },
      {in.query, in.key, in.value});
  for (std::size_t i = 0; i < 3; ++i) check_close(ours[i], theirs[i], 1e-11);
}

TEST_CASE("NaN stays in its row, and arrays changed before the backward pass are an error") {
  const Problem p{1, 1, 1, 3, 4, 2, 2};
  const Inputs in = inputs_of(p);
  in.query(0, 0, 1, 0) = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> y = attention(in.query, in.key, in.value).to_vector<double>();
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(std::isnan(y[i]) == (i / 2 == 1));
  for (int changed = 0; changed < 5; ++changed) {
    NDArray query = normal({1, 1, 3, 2}, 4), key = normal({1, 1, 4, 2}, 5), value = normal({1, 1, 4, 2}, 6);
    const NDArray mask = normal({4}, 7);
    set_requires_grad(query);
    const NDArray result = attention(query, key, value, mask);
    {
      const NoGrad no_grad;
      const NDArray arrays[] = {query, key, value, mask, result.detach()};
      arrays[changed].fill(1);
    }
    CHECK_THROWS_AS(backward(sum(result)), Error);
  }
}

TEST_CASE("multiply-adds of attention are those of what queries see") {
  NDArray query = normal({1, 2, 3, 4}, 1), key = normal({1, 1, 5, 4}, 2), value = normal({1, 1, 5, 6}, 3);
  for (NDArray* const one : {&query, &key, &value}) set_requires_grad(*one);
  for (const auto& [causal, pairs] : {std::pair(false, 2 * 15), std::pair(true, 2 * 12)}) {
    const MultiplyAdds forward;
    const NDArray y = attention(query, key, value, {}, {.causal = causal});
    CHECK(forward.count() == pairs * (4 + 6));
    const MultiplyAdds backward;
    grad({sum(y)}, {query, key, value});
    CHECK(backward.count() == pairs * (3 * 4 + 2 * 6));
  }
}

TEST_CASE("attention refuses what does not fit, at the call") {
  const NDArray q = ones({2, 4, 3, 5}), k = ones({2, 2, 6, 5}), v = ones({2, 2, 6, 7});
  const auto why = [](auto f) { return message_of<InvalidArgument>(f); };
  const std::string want =
      "; want (N, heads, T, D), (N, kv_heads, S, D), (N, kv_heads, S, E), where kv_heads divides heads";
  CHECK(why([&] {
          attention(q, k, ones({2, 2, 5, 7}));
        }) == "attention: query is (2, 4, 3, 5), key (2, 2, 6, 5), value (2, 2, 5, 7)" + want);
  CHECK(why([&] {
          attention(ones({4, 3, 5}), k, v);
        }) == "attention: query is (4, 3, 5), key (2, 2, 6, 5), value (2, 2, 6, 7)" + want);
  CHECK(why([&] { attention(ones({2, 3, 3, 5}), k, v); }).find(want) != std::string::npos);
  CHECK(why([&] {
          attention(q, k, v, ones({4, 6}));
        }) == "attention: mask is f32 (4, 6); want bool or f32 that broadcasts to (2, 4, 3, 6)");
  CHECK(why([&] { attention(q, k, v, ones({6}, DType::f64)); }) ==
        "attention: mask is f64 (6,); want bool or f32 that broadcasts to (2, 4, 3, 6)");
  CHECK(why([&] {
          attention(q, k, ones({2, 2, 6, 7}, DType::f64));
        }) == "attention: query is f32, key f32, value f64; want one dtype");
  CHECK(why([&] { attention(q, k, v, {}, {.scale = kInfinity}); }) ==
        "attention: scale is inf; want a finite number");
  CHECK(why([&] { attention(q, k, v, {}, {.dropout = 1.5}); }) == "attention: dropout is 1.5; want 0 to 1");
  CHECK(why([&] {
          attention(ones({1, 1, 1, 1}, DType::i32), k, v);
        }) == "attention: dtype i32; wanted a floating one");
}
