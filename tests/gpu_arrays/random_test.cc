// Random numbers on a GPU are the CPU's, bit by bit; so are linspace, dropout and initial weights.
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/creation.h>
#include <heddle/distributions.h>
#include <heddle/dropout.h>
#include <heddle/elementwise_math.h>
#include <heddle/ndarray.h>
#include <heddle/random.h>

#include "problems.h"
#include "within.h"

using namespace heddle;
using namespace heddle::test;

namespace {

const std::vector<Shape> kShapes = {{}, {0}, {1}, {3}, {5, 33}, {1023}, {2, 2050}};
using Draw = std::function<NDArray(Generator&, const Shape&, Device)>;

// Draws twice, so that the second draw begins at another position.
void check_same(const Draw& draw) {
  for (const Shape& shape : kShapes) {
    CAPTURE(shape.to_string());
    Generator here(0x123456789abcdef), there(0x123456789abcdef);
    here.set_position(0xfffffffful - 100), there.set_position(0xfffffffful - 100);
    for (int i = 0; i < 2; ++i) CHECK(same_bits(draw(here, shape, cpu()), draw(there, shape, gpu(0))));
    CHECK(here.position() == there.position());
  }
}

TEST_CASE("uniform and normal numbers on a GPU have the bits of the CPU") {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    CAPTURE(name_of(dtype));
    check_same([=](Generator& from, const Shape& shape, Device device) {
      return from.uniform(shape, -0.25, 3, dtype, device);
    });
    check_same([=](Generator& from, const Shape& shape, Device device) {
      return from.normal(shape, 0.5, 2, dtype, device);
    });
  }
  CHECK(problems() == "");
}

TEST_CASE("bernoulli numbers and integers on a GPU are the CPU's") {
  for (const DType dtype : kAllDTypes) {
    CAPTURE(name_of(dtype));
    check_same([=](Generator& from, const Shape& shape, Device device) {
      return from.bernoulli(shape, 0.3, dtype, device);
    });
    if (is_floating(dtype) || dtype == DType::boolean) continue;
    check_same([=](Generator& from, const Shape& shape, Device device) {
      return from.integers(shape, is_unsigned(dtype) ? 3 : -100, 101, dtype, device);
    });
  }
  check_same([](Generator& from, const Shape& shape, Device device) {
    return from.integers(shape, INT64_MIN, INT64_MAX, DType::i64, device);
  });
  for (const std::int64_t n : {0, 1, 2, 1000}) {
    Generator here(5), there(5);
    CHECK(same_bits(here.permutation(n), there.permutation(n, gpu(0))));
    CHECK(here.position() == there.position());
  }
  CHECK(problems() == "");
}

TEST_CASE("linspace() on a GPU has the bits of the CPU, and logspace() is near them") {
  for (const DType dtype : kAllDTypes) {
    CAPTURE(name_of(dtype));
    for (const bool endpoint : {true, false}) {
      for (const std::int64_t num : {0, 1, 2, 33, 1025}) {
        CAPTURE(num);
        CHECK(same_bits(linspace(-3, 4.5, num, endpoint, dtype),
                        linspace(-3, 4.5, num, endpoint, dtype, gpu(0))));
        CHECK(same_bits(linspace(-1e308, 1e308, num, endpoint, dtype),
                        linspace(-1e308, 1e308, num, endpoint, dtype, gpu(0))));
        CHECK(within(logspace(-1, 1.5, num, endpoint, 10, dtype),
                     logspace(-1, 1.5, num, endpoint, 10, dtype, gpu(0)),
                     is_floating(dtype) ? ulps_of(dtype, 2) : 0, is_floating(dtype) ? 0 : 1));
      }
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("dropout on a GPU drops what the CPU drops") {
  using Function = NDArray (*)(const NDArray&, double, Generator&, bool, Where);
  const auto run = [](Function drop, DType dtype, Device device) {
    Generator from(7);
    NDArray x = from.normal({4, 6, 35}, 0, 1, dtype).copy_to(device);
    x.set_requires_grad();
    const NDArray y = drop(x, 0.4, from, true, Where::current());
    y.backward((arange(840, dtype).view_as({4, 6, 35})).copy_to(device));
    return std::pair(y, x.grad());
  };
  struct Case {
    Function drop;
    bool exact;
  };
  for (const Case& one : {Case{dropout, true},
                          {channel_dropout, true},
                          {alpha_dropout, false},
                          {feature_alpha_dropout, false},
                          {gaussian_dropout, true},
                          {gaussian_noise, true}}) {
    for (const DType dtype : {DType::f32, DType::f64, DType::f16}) {
      CAPTURE(name_of(dtype));
      const auto [y, grad] = run(one.drop, dtype, cpu());
      const auto [there, there_grad] = run(one.drop, dtype, gpu(0));
      const double most = one.exact ? 0 : ulps_of(dtype, 2);
      CHECK(within(y.detach(), there.detach(), most, most));
      CHECK(same_bits(grad, there_grad));
      CHECK(within(grad, there_grad, 0, 0));
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("distributions on a GPU have the numbers of the CPU") {
  const Shape shape{3, 100};
  const NDArray wide = arange(0.25, 75.25, 0.25, DType::f64).view_as(shape), share = wide / 76;
  const NDArray trials = floor(wide * 3);
  const auto on = [](const NDArray& x, Device device) { return x.copy_to(device); };
  using DrawOn = std::function<NDArray(Device, Generator&)>;
  const std::vector<DrawOn> draws = {
      [&](Device to, Generator& from) { return exponential(shape, 2.0, DType::f64, to, from); },
      [&](Device to, Generator& from) { return exponential(shape, on(wide, to), DType::f32, to, from); },
      [&](Device to, Generator& from) { return gamma(shape, on(wide, to), 0.5, DType::f64, to, from); },
      [&](Device to, Generator& from) { return gamma(shape, 0.01, on(wide, to), DType::f16, to, from); },
      [&](Device to, Generator& from) {
        return beta(shape, on(wide, to), on(share, to), DType::f64, to, from);
      },
      [&](Device to, Generator& from) { return poisson(shape, on(wide, to), DType::i64, to, from); },
      [&](Device to, Generator& from) {
        return binomial(shape, on(trials, to), on(share, to), DType::i32, to, from);
      },
      [&](Device to, Generator& from) { return truncated_normal(shape, 0, 1, -2, 2, DType::f64, to, from); },
      [&](Device to, Generator& from) { return truncated_normal(shape, 0, 1, 3, 1e9, DType::f32, to, from); },
      [&](Device to, Generator& from) { return categorical(on(wide, to), 40, from); }};
  for (std::size_t i = 0; i < draws.size(); ++i) {
    CAPTURE(i);
    Generator here(11), there(11);
    CHECK(different(draws[i](cpu(), here), draws[i](gpu(0), there), i == 3 ? 0.01 : 1e-5) <= 2);
    CHECK(here.position() == there.position());
  }
  CHECK(problems() == "");
}

TEST_CASE("categorical samples of few and of many classes are the CPU's") {
  for (const std::int64_t n : {1, 2, 3, 5, 33, 1000, 1025, 4100}) {
    CAPTURE(n);
    Generator from(static_cast<std::uint64_t>(n));
    NDArray logits = from.normal({3, n}, 0, 2, DType::f64);
    if (n > 2) logits.slice(1, {.begin = 1, .step = 3}).fill(-INFINITY);
    const std::int64_t samples = n < 100 ? 200 : 5;
    Generator here(4), there(4);
    here.set_position(0xfffffffful), there.set_position(0xfffffffful);
    CHECK(different(categorical(logits, samples, here), categorical(logits.copy_to(gpu(0)), samples, there),
                    0) <= 1);
  }
  CHECK(problems() == "");
}

std::string failure_of(const NDArray& array) {
  try {
    array.wait();
  } catch (const Error& error) {
    const std::string text = error.what();
    return text.substr(0, text.find(';'));
  }
  return "";
}

TEST_CASE("parameters out of their range are refused on a GPU in the CPU's words") {
  const auto run = [](Device device) {
    Generator from(1);
    NDArray rates = ones({3, 40}, DType::f64), shares = ones({3, 40}, DType::f64),
            logits = ones({3, 40}, DType::f64);
    rates.slice(1, {.begin = 30, .end = 33}).fill(-2.5);
    shares.slice(0, {.begin = 1, .end = 2}).fill(NAN);
    logits.slice(0, {.begin = 2, .end = 3}).fill(-INFINITY);
    const auto on = [device](const NDArray& x) { return x.copy_to(device); };
    std::vector<std::string> all = {
        failure_of(poisson({3, 40}, on(rates), DType::i64, device, from)),
        failure_of(gamma({3, 40}, on(shares), on(rates), DType::f64, device, from)),
        failure_of(binomial({3, 40}, 5, on(shares), DType::i64, device, from)),
        failure_of(categorical(on(logits), 2, from)), failure_of(categorical(on(shares), 2, from))};
    NDArray many = ones({3, 3000}, DType::f64);  // the first wrong one of a row counts
    many.slice(1, {.begin = 2998}).fill(NAN);
    for (const std::int64_t column : {2100, 1700}) {
      many.slice(0, {.begin = 1, .end = 2}).slice(1, {.begin = column, .step = 70}).fill(INFINITY);
      all.push_back(failure_of(categorical(on(many), 1, from)));
      many.slice(0, {.begin = 0, .end = 1}).fill(-INFINITY);
    }
    return all;
  };
  const auto here = run(cpu()), there = run(gpu(0));
  for (const std::string& text : here) CHECK(text != "");
  CHECK(here == there);
  CHECK(problems() == "");
}

TEST_CASE("initial weights on a GPU are the CPU's") {
  Generator here(3), there(3);
  const NDArray a = init_weight({8, 3, 5, 5}, Init::he, here),
                b = init_weight({8, 3, 5, 5}, Init::he, there, gpu(0));
  CHECK(same_bits(a.detach(), b.detach()));
  CHECK(b.requires_grad());
  CHECK(problems() == "");
}

}  // namespace
