// Elementwise mathematics beyond numpy_cases_math.py: gradients, dtypes, call sites, infix operators, errors.
#include <cmath>
#include <gradient_check.h>
#include <limits>
#include <message_of.h>
#include <string>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/operator_registry.h>
#include <heddle/ops.h>
#include <heddle/random.h>

namespace heddle {

using namespace testing;
using test::message_of;

namespace {

using Bools = std::vector<bool>;

NDArray values(Shape shape, double low, double high, std::uint64_t seed) {
  return Generator(seed).uniform(shape, low, high, DType::f64);
}

// All operators of the family "Elementwise mathematics" with that many operands.
std::vector<const OperatorInfo*> elementwise_operators(std::size_t operands) {
  std::vector<const OperatorInfo*> all;
  for (const OperatorInfo& op : operators()) {
    if (op.family == "Elementwise mathematics" && op.arguments.size() == operands) all.push_back(&op);
  }
  REQUIRE(all.size() > 15);
  return all;
}

NDArray applied(const OperatorInfo& op, const OperatorValues& operands) {
  return std::get<NDArray>(call_operator(op, operands).at(0));
}

}  // namespace

TEST_CASE("gradients of elementwise mathematics") {
  for (const OperatorInfo* op : elementwise_operators(1)) {
    if (!op->differentiable) continue;
    CAPTURE(op->name);
    // The values stay away from the ends of the domain, where some functions have a pole or an infinite
    // slope.
    const double low = op->domain[0], width = op->domain[1] - low;
    for (const double part : {0.1, 0.35, 0.6}) {
      if (op->name == "cbrt" && part == 0.35) continue;
      for (const Shape& shape : {Shape{}, Shape{3, 4}, Shape{0, 2}}) {
        check_gradients([&](const auto& x) { return applied(*op, {x[0]}); },
                        {values(shape, low + part * width, low + (part + 0.3) * width, 5)});
      }
    }
  }
  for (const OperatorInfo* op : elementwise_operators(2)) {
    if (!op->differentiable) continue;
    CAPTURE(op->name);
    const NDArray a = values({3, 1}, 0.3, 2, 7), b = values({3, 4}, 2.2, 3, 8);
    check_gradients([&](const auto& x) { return applied(*op, {x[0], x[1]}); }, {a, b});
    check_gradients([&](const auto& x) { return applied(*op, {x[0], 1.75}); }, {b});
    check_gradients([&](const auto& x) { return applied(*op, {7.25, x[0]}); }, {b});
  }
  check_gradients([](const auto& x) { return copysign(x[0], -2); }, {values({5}, -2, 2, 9)});
}

TEST_CASE("values where both sides of a formula meet") {
  const double pi = 3.141592653589793, gamma = 0.5772156649015329;
  const NDArray x = array<double>({1, 0.5, 2, -0.5, 10, 1e6});
  const std::vector<double> expected = {-gamma,
                                        -gamma - 2 * std::log(2.0),
                                        1 - gamma,
                                        0.03648997397857652,
                                        2.251752589066721,
                                        13.815510057964191};
  const std::vector<double> got = digamma(x).to_vector<double>();
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-13));
  CHECK(std::isnan(digamma(array<double>({-3})).item<double>()));
  CHECK(std::isinf(digamma(array<double>({0.0})).item<double>()));
  NDArray half = array<double>({0.5});
  set_requires_grad(half);
  backward(digamma(half));
  CHECK(grad(half).item<double>() == doctest::Approx(pi * pi / 2).epsilon(1e-13));
  const double infinity = std::numeric_limits<double>::infinity();
  const NDArray ends = array<double>({infinity, -infinity, 0});
  CHECK(logaddexp(ends, ends).to_vector<double>() == std::vector<double>{infinity, -infinity, std::log(2.0)});
}

TEST_CASE("equal elements give equal results, wherever they are in an array and however it is laid out") {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    for (const OperatorInfo* op : elementwise_operators(1)) {
      if (op->arguments[0].dtypes.front() != DType::f32) continue;  // skips operators on bits
      CAPTURE(op->name);
      const NDArray x = full({2, 37}, op->name == "acosh" ? 1.25 : 0.8125, dtype);
      for (const NDArray& seen : {x, transpose(x), x.slice(1, {.step = 2}), broadcast_to(x[0][0], {19})}) {
        const NDArray y = applied(*op, {seen});
        const NDArray first = y.contiguous().view_as({y.size()})[0];
        CHECK(sum(equal(y, first)).item<std::int64_t>() == y.size());
      }
    }
  }
}

TEST_CASE("dtypes of elementwise mathematics") {
  const NDArray i = array<std::int32_t>({-7, 5}), b = array({true, false}), u = ones({2}, DType::u8);
  CHECK(sin(i).dtype() == DType::f64);
  CHECK(exp2(b).dtype() == DType::f64);
  CHECK(sin(ones({1}, DType::bf16)).dtype() == DType::bf16);
  CHECK(floor(i).dtype() == DType::i32);
  CHECK(sign(i).to_vector<std::int32_t>() == std::vector<std::int32_t>{-1, 1});
  CHECK(atan2(i, u).dtype() == DType::f64);
  CHECK((i % 3).to_vector<std::int32_t>() == std::vector<std::int32_t>{2, 2});
  CHECK(floor_divide(i, 2).to_vector<std::int32_t>() == std::vector<std::int32_t>{-4, 2});
  CHECK(fmod(i, 3).to_vector<std::int32_t>() == std::vector<std::int32_t>{-1, 2});
  CHECK(isfinite(i).to_vector<bool>() == Bools{true, true});
  CHECK(logical_and(i, b).to_vector<bool>() == Bools{true, false});
  CHECK(logical_or(b, 0.5).to_vector<bool>() == Bools{true, true});
  CHECK(nan_to_num(i).dtype() == DType::i32);
  const NDArray huge = nan_to_num(full({1}, std::numeric_limits<double>::infinity(), DType::bf16));
  CHECK(isfinite(huge).item<bool>());
  CHECK(std::isinf(array<float>({3.4e38f}).astype(DType::bf16).astype(DType::f32).item<float>()));
}

TEST_CASE("infix operators of elementwise mathematics are the functions") {
  const NDArray a = array<std::int32_t>({6, -1}), b = array<std::int32_t>({3, 1});
  using Ints = std::vector<std::int32_t>;
  CHECK((a & b).to_vector<std::int32_t>() == Ints{2, 1});
  CHECK((a | b).to_vector<std::int32_t>() == Ints{7, -1});
  CHECK((a ^ 1).to_vector<std::int32_t>() == Ints{7, -2});
  CHECK((a << 1).to_vector<std::int32_t>() == Ints{12, -2});
  CHECK((a >> b).to_vector<std::int32_t>() == Ints{0, -1});
  CHECK((~a).to_vector<std::int32_t>() == Ints{-7, 0});
  CHECK((!(a > 0)).to_vector<bool>() == Bools{false, true});
  CHECK((a > 0 && b > 2).to_vector<bool>() == Bools{true, false});
  CHECK((a > 0 || b > 0).to_vector<bool>() == Bools{true, true});
  CHECK((a == 6).to_vector<bool>() == Bools{true, false});
  CHECK((a != b).to_vector<bool>() == Bools{true, true});
  CHECK((7 % b).to_vector<std::int32_t>() == Ints{1, 0});
}

TEST_CASE("dtypes that elementwise mathematics refuses") {
  const NDArray f = ones({2}), b = ones({2}, DType::boolean), i = ones({2}, DType::i64);
  const auto says = [](const std::function<void()>& call) { return message_of<InvalidArgument>(call); };
  CHECK(says([&] { bitwise_and(f, i); }) == "bitwise_and: dtype f64; wanted an integer's or bool");
  CHECK(says([&] { bitwise_left_shift(b, b); }) == "bitwise_left_shift: dtype bool; wanted an integer's");
  CHECK(says([&] { bitwise_invert(f); }) == "bitwise_invert: dtype f32; wanted an integer's or bool");
  CHECK(says([&] { floor_divide(b, b); }) == "floor_divide: dtype bool; wanted a number's");
  CHECK(says([&] { floor(b); }) == "floor: dtype bool; wanted a number's");
  CHECK(says([&] { sin(NDArray()); }) ==
        "sin: an array is undefined: made without a shape, moved from, or a gradient before backward()");
  CHECK(says([&] { atan2(1, 2); }) == "atan2: two scalars; wanted at least one array");
  CHECK(
      says([&] { nan_to_num(NDArray()); }) ==
      "nan_to_num: an array is undefined: made without a shape, moved from, or a gradient before backward()");
}

TEST_CASE("the derivatives of lgamma beside their poles") {
  const auto close = [](const NDArray& x, const std::vector<double>& expected) {
    const std::vector<double> got = x.to_vector<double>();
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-7));
  };
  NDArray x = array<double>({-1e-20, 1e-20, -1e-10, -3 + 1e-10, -1e-120});
  const double apart = x.to_vector<double>()[3] + 3;
  close(digamma(x), {1e20, -1e20, 1e10, -1 / apart, 1e120});
  set_requires_grad(x);
  const NDArray first = grad({sum(digamma(x))}, {x}, {.create_graph = true})[0];
  close(first.detach(), {1e40, 1e40, 1e20, 1 / (apart * apart), 1e240});
  close(grad({sum(lgamma(x))}, {x})[0], {1e20, -1e20, 1e10, -1 / apart, 1e120});
  NDArray y = array<double>({-1e-20, 1e-20, -1e-10});
  set_requires_grad(y);
  const NDArray second = grad({sum(lgamma(y))}, {y}, {.create_graph = true})[0];
  const NDArray third = grad({sum(second)}, {y}, {.create_graph = true})[0];
  close(grad({sum(third)}, {y})[0], {2e60, -2e60, 2e30});
}

TEST_CASE("gradients of elu, celu and selu at NaN are NaN") {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16})
    for (const auto activation :
         {+[](const NDArray& x) { return elu(x); }, +[](const NDArray& x) { return celu(x, 0.5); },
          +[](const NDArray& x) { return selu(x); }}) {
      NDArray x = array<double>({std::nan(""), -1, 0, 2}).astype(dtype);
      x.set_requires_grad(true);
      sum(activation(x)).backward();
      const std::vector<double> gradient = x.grad().astype(DType::f64).to_vector<double>();
      CHECK(std::isnan(gradient[0]));
      CHECK(gradient[1] < 0.7);
      CHECK(gradient[3] == doctest::Approx(1).epsilon(0.06));
    }
}

}  // namespace heddle
