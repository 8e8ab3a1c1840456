// Rounding, mathematics, remainders, bits, clip and triangles on a GPU against the CPU: dtypes, shapes and strides are drawn.
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/elementwise_math.h>
#include <heddle/into.h>
#include <heddle/ndarray.h>
#include <heddle/rearrange.h>

#include "problems.h"
#include "within.h"

using namespace heddle;
using namespace heddle::test;

namespace {

using Unary = std::function<NDArray(const NDArray&)>;
using Binary = std::function<NDArray(const Operand&, const Operand&)>;
template <class F> struct Named {
  std::string name;
  F call;
};

#define HEDDLE_OF_ONE(name)                         \
  Named<Unary> {                                    \
#name, [](const NDArray& x) { return name(x); } \
  }
#define HEDDLE_OF_TWO(name)                                              \
  Named<Binary> {                                                        \
#name, [](const Operand& a, const Operand& b) { return name(a, b); } \
  }

const std::vector<Named<Unary>> kExactUnary = {
    HEDDLE_OF_ONE(floor),      HEDDLE_OF_ONE(ceil),     HEDDLE_OF_ONE(round),
    HEDDLE_OF_ONE(trunc),      HEDDLE_OF_ONE(sign),     HEDDLE_OF_ONE(isnan),
    HEDDLE_OF_ONE(isinf),      HEDDLE_OF_ONE(isfinite), HEDDLE_OF_ONE(rsqrt),
    HEDDLE_OF_ONE(reciprocal), HEDDLE_OF_ONE(signbit),  HEDDLE_OF_ONE(bitwise_invert),
    HEDDLE_OF_ONE(nan_to_num)};
const std::vector<Named<Unary>> kNearUnary = {
    HEDDLE_OF_ONE(exp2),   HEDDLE_OF_ONE(expm1), HEDDLE_OF_ONE(log1p), HEDDLE_OF_ONE(log2),
    HEDDLE_OF_ONE(log10),  HEDDLE_OF_ONE(cbrt),  HEDDLE_OF_ONE(sin),   HEDDLE_OF_ONE(cos),
    HEDDLE_OF_ONE(tan),    HEDDLE_OF_ONE(asin),  HEDDLE_OF_ONE(acos),  HEDDLE_OF_ONE(atan),
    HEDDLE_OF_ONE(sinh),   HEDDLE_OF_ONE(cosh),  HEDDLE_OF_ONE(asinh), HEDDLE_OF_ONE(acosh),
    HEDDLE_OF_ONE(atanh),  HEDDLE_OF_ONE(erf),   HEDDLE_OF_ONE(erfc),  HEDDLE_OF_ONE(lgamma),
    HEDDLE_OF_ONE(digamma)};
const std::vector<Named<Binary>> kExactBinary = {
    HEDDLE_OF_TWO(floor_divide),       HEDDLE_OF_TWO(remainder),   HEDDLE_OF_TWO(fmod),
    HEDDLE_OF_TWO(copysign),           HEDDLE_OF_TWO(nextafter),   HEDDLE_OF_TWO(bitwise_and),
    HEDDLE_OF_TWO(bitwise_or),         HEDDLE_OF_TWO(bitwise_xor), HEDDLE_OF_TWO(bitwise_left_shift),
    HEDDLE_OF_TWO(bitwise_right_shift)};
const std::vector<Named<Binary>> kNearBinary = {HEDDLE_OF_TWO(atan2), HEDDLE_OF_TWO(hypot),
                                                HEDDLE_OF_TWO(logaddexp)};

constexpr std::size_t kDTypes = std::size(kAllDTypes);

// Calls with both arrays, or with one and a number.
template <class Check> void check_binary(const Named<Binary>& op, const Check& check, int seeds) {
  for (int seed = 0; seed < seeds; ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    CAPTURE(op.name);
    CAPTURE(seed);
    const Shape shape = random_shape(random);
    const DType dtype = kAllDTypes[static_cast<std::size_t>(seed) % kDTypes];
    const Pair a = random_pair(random, shape, dtype), b = random_pair(random, shape, dtype);
    const double number = random() % 2 ? 3 : -2.5;
    const std::uint64_t kind = random() % 4;
    check(
        [&](const NDArray& x) {
          if (kind == 0) return op.call(x, number);
          if (kind == 1) return op.call(number, x);
          return op.call(x, x.device() == cpu() ? b.here : b.there);
        },
        a, dtype);
  }
}

TEST_CASE("rounding and classes of numbers on a GPU have the bits of the CPU") {
  for (const Named<Unary>& op : kExactUnary) {
    for (const DType dtype : kAllDTypes) {
      for (int seed = 0; seed < 2; ++seed) {
        Random random(static_cast<std::uint64_t>(seed) * 100 + static_cast<std::uint64_t>(dtype));
        CAPTURE(op.name);
        CAPTURE(name_of(dtype));
        CHECK(compare(op.call, random_pair(random, random_shape(random), dtype), true));
      }
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("functions of mathematics on a GPU are near the CPU's") {
  for (const Named<Unary>& op : kNearUnary) {
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::boolean}) {
      Random random(static_cast<std::uint64_t>(dtype));
      CAPTURE(op.name);
      CAPTURE(name_of(dtype));
      const Pair x = random_pair(random, random_shape(random), dtype);
      CHECK(compare(op.call, x, false));
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("remainders, bits and shifts on a GPU have the bits of the CPU") {
  for (const Named<Binary>& op : kExactBinary)
    check_binary(
        op, [](const auto& call, const Pair& a, DType) { CHECK(compare(call, a, true)); }, 26);
  CHECK(problems() == "");
}

TEST_CASE("functions of two numbers on a GPU are near the CPU's") {
  for (const Named<Binary>& op : kNearBinary) {
    const auto check = [](const auto& call, const Pair& a, DType dtype) {
      const double most = ulps_of(is_floating(dtype) ? dtype : DType::f64, 8);
      CHECK(within(call(a.here), call(a.there), most, most));  // the logarithm of a sum may be near 0
    };
    check_binary(op, check, 26);
  }
  CHECK(problems() == "");
}

TEST_CASE("powers on a GPU") {
  for (const DType dtype : kAllDTypes) {
    CAPTURE(name_of(dtype));
    Random random(static_cast<std::uint64_t>(dtype));
    const Shape shape{3, 41};
    const Pair a = random_pair(random, shape, dtype);
    const NDArray exponents = (arange(123) % 7).view_as(shape).astype(dtype),
                  there = exponents.copy_to(gpu(0));
    if (dtype == DType::boolean) continue;
    CHECK(compare([&](const NDArray& x) { return power(x, x.device() == cpu() ? exponents : there); }, a,
                  !is_floating(dtype)));
    CHECK(compare([&](const NDArray& x) { return power(x, 3); }, a, !is_floating(dtype)));
    CHECK(compare([&](const NDArray& x) { return power(x, -1); }, a, !is_floating(dtype)));
    CHECK(compare([&](const NDArray& x) { return power(x, -1.5); }, a, false));
  }
  CHECK(problems() == "");
}

// What the op failed with, without the place of the call.
std::string failure_of(const NDArray& array) {
  try {
    array.wait();
  } catch (const Error& error) {
    const std::string text = error.what();
    return text.substr(0, text.find(';'));
  }
  return "";
}

TEST_CASE("a negative exponent of integers is an error on a GPU") {
  for (const DType dtype : {DType::i8, DType::i64}) {
    const NDArray a = full({3, 50}, 2, dtype), b = (arange(150) - 148).view_as({3, 50}).astype(dtype);
    const std::string here = failure_of(power(a, b)),
                      there = failure_of(power(a.copy_to(gpu(0)), b.copy_to(gpu(0))));
    CHECK(here.find("power: an integer to a negative integer power") != std::string::npos);
    CHECK(there == here);
    CHECK(failure_of(power(a.copy_to(gpu(0)), full({3, 50}, 3, dtype, gpu(0)))) == "");
  }
  CHECK(problems() == "");
}

TEST_CASE("clip() on a GPU has the bits of the CPU") {
  for (const DType dtype : kAllDTypes) {
    CAPTURE(name_of(dtype));
    Random random(static_cast<std::uint64_t>(dtype));
    for (const auto& [low, high] :
         {std::pair<Scalar, Scalar>{-2, 3}, {0.25, 7.5}, {-1e9, 1e9}, {true, true}, {-1000, 70000}}) {
      const Pair x = random_pair(random, random_shape(random), dtype);
      CHECK(
          compare([&, &least = low, &most = high](const NDArray& array) { return clip(array, least, most); },
                  x, true));
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("triangles of matrices on a GPU") {
  for (const DType dtype : kAllDTypes) {
    CAPTURE(name_of(dtype));
    Random random(static_cast<std::uint64_t>(dtype));
    for (const Shape& shape :
         {Shape{7, 5}, Shape{1, 40}, Shape{33, 1}, Shape{3, 0}, Shape{2, 3, 4, 6}, Shape{2, 40, 33}}) {
      const Pair x = random_pair(random, shape, dtype);
      for (const std::int64_t k : {-2, 0, 1, 100}) {
        CHECK(compare([&](const NDArray& array) { return tril(array, k); }, x, true));
        CHECK(compare([&](const NDArray& array) { return triu(array, k); }, x, true));
      }
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("gradients of mathematics on a GPU are near the CPU's") {
  const auto run = [](const std::function<NDArray(const NDArray&, const NDArray&)>& of, Device device) {
    NDArray x = (arange(1, 65, 1, DType::f32) / 70).copy_to(device),
            w = (arange(64, 0, -1, DType::f32) / 9).copy_to(device);
    x.set_requires_grad(), w.set_requires_grad();
    of(x, w).backward(ones({64}, DType::f32, device));
    return std::pair(x.grad(), w.grad());
  };
  const std::vector<std::function<NDArray(const NDArray&, const NDArray&)>> all = {
      [](const NDArray& x, const NDArray& w) {
        return sin(x) * cos(w) + tan(x) * exp2(w) + expm1(x) / log1p(w);
      },
      [](const NDArray& x, const NDArray& w) {
        return asin(x) + acos(x) * atan(w) + sinh(x) * cosh(w) + erf(x) + erfc(w);
      },
      [](const NDArray& x, const NDArray& w) {
        return lgamma(w) + digamma(x) + log2(x) + log10(w) + cbrt(w) * rsqrt(x) + reciprocal(x);
      },
      [](const NDArray& x, const NDArray& w) {
        return asinh(x) + acosh(w + 2) + atanh(x) + power(x, w) + logaddexp(x, w);
      },
      [](const NDArray& x, const NDArray& w) {
        return atan2(x, w) + hypot(x, w) + remainder(w, x) + fmod(w, x) + copysign(w, x) + floor(w);
      },
      [](const NDArray& x, const NDArray& w) {
        return clip(w, 1, 3) * x + where(less(x, w), x, w) + power(w, 3) + nan_to_num(x) + maximum(x, w);
      }};
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    const auto [x, w] = run(all[i], cpu());
    const auto [there_x, there_w] = run(all[i], gpu(0));
    CHECK(within(x, there_x, 1e-5, 1e-5));
    CHECK(within(w, there_w, 1e-5, 1e-5));
  }
  CHECK(problems() == "");
}

TEST_CASE("operators in place and into an array on a GPU have the bits of the CPU") {
  const auto run = [](Device device) {
    NDArray x = arange(1, 41, 1, DType::f32).view_as({5, 8}).copy_to(device),
            row = (arange(8) + 1).copy_to(device);
    x += row, x *= 0.5, x -= x, x += 7, x /= row, x %= 3;
    floor_divide_(x, 0.25);
    NDArray part = x.slice(1, {.begin = 0, .end = 8, .step = 2});
    part += 100;
    NDArray bits = arange(1, 41, 1, DType::i32).view_as({5, 8}).copy_to(device);
    bits <<= 2, bits |= 1, bits ^= bits.slice(0, {.step = -1}), bits >>= 1, bits &= 0x7f;
    power_(bits, 2);
    const NDArray out = zeros({5, 8}, DType::f32, device);
    into(
        out, [](const NDArray& a, const NDArray& b) { return a + b; }, x, bits);
    return std::vector{x, bits, out};
  };
  const auto here = run(cpu()), there = run(gpu(0));
  for (std::size_t i = 0; i < here.size(); ++i) CHECK(same_bits(here[i], there[i]));
  CHECK(problems() == "");
}

}  // namespace
