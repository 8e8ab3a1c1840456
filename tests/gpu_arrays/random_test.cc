// Random numbers on a GPU are the CPU's, bit by bit; so are linspace, dropout and initial weights.
#include <functional>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/creation.h>
#include <heddle/dropout.h>
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

TEST_CASE("initial weights on a GPU are the CPU's") {
  Generator here(3), there(3);
  const NDArray a = init_weight({8, 3, 5, 5}, Init::he, here),
                b = init_weight({8, 3, 5, 5}, Init::he, there, gpu(0));
  CHECK(same_bits(a.detach(), b.detach()));
  CHECK(b.requires_grad());
  CHECK(problems() == "");
}

}  // namespace
