#include <bit>
#include <cmath>
#include <functional>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/error.h>
#include <heddle/ops.h>
#include <heddle/optimizer.h>
#include <heddle/random.h>

namespace heddle {

namespace {

constexpr DType kHalves[] = {DType::f16, DType::bf16};

// The values of an array of halves, as f32, which represents every half exactly.
std::vector<float> numbers(const NDArray& array) { return array.astype(DType::f32).to_vector<float>(); }

NDArray every_pattern(DType dtype) {
  std::vector<Float16> all;
  for (unsigned bits = 0; bits < 65536; ++bits)
    all.push_back(Float16::from_bits(static_cast<std::uint16_t>(bits)));
  const NDArray made = array(all, {256, 256});
  if (dtype == DType::f16) return made;
  return NDArray(made.storage(), made.shape(), DType::bf16);
}

// Checks that all elements of two arrays are equal. NaN counts as equal to NaN, and 0 as different from -0.
void check_same(const NDArray& got, const NDArray& wanted) {
  REQUIRE(got.dtype() == wanted.dtype());
  REQUIRE(got.shape() == wanted.shape());
  const std::vector<float> a = numbers(got), b = numbers(wanted);
  int wrong = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool same =
        std::isnan(a[i]) ? std::isnan(b[i]) : a[i] == b[i] && std::signbit(a[i]) == std::signbit(b[i]);
    wrong += !same;
  }
  CHECK(wrong == 0);
}

NDArray wide(const NDArray& x) { return x.astype(DType::f32); }

// The result that is expected for halves, made of the result y for f32: numbers are rounded to the half type;
// the bools of comparisons stay as they are.
NDArray as_result(const NDArray& y, DType dtype) { return y.dtype() == DType::f32 ? y.astype(dtype) : y; }

using Unary = std::function<NDArray(const NDArray&, Where)>;
using Binary = std::function<NDArray(const Operand&, const Operand&, Where)>;

const std::vector<Unary> kUnary = {
    negative, abs, square, relu, exp, log, sqrt, tanh, sigmoid, logical_not, [](const NDArray& x, Where) {
      return clip(x, -2, 2.5);
    }};
const std::vector<Binary> kBinary = {add,   subtract,  multiply, divide,     power,   maximum,      minimum,
                                     equal, not_equal, less,     less_equal, greater, greater_equal};

NDArray leaf(std::vector<double> values, DType dtype) {
  const auto size = static_cast<std::int64_t>(values.size());
  NDArray x = array<double>(values, {size}).astype(dtype);
  set_requires_grad(x);
  return x;
}

}  // namespace

TEST_CASE("unary operators on every half are those on f32, rounded once") {
  for (DType dtype : kHalves) {
    const NDArray x = every_pattern(dtype);
    for (std::size_t i = 0; i < kUnary.size(); ++i) {
      CAPTURE(i);
      for (const NDArray& view :
           {x, x.permuted({1, 0}), x.slice(1, {.step = -3}), x[3].broadcast_view({5, 256})}) {
        check_same(kUnary[i](view, Where::current()),
                   as_result(kUnary[i](wide(view), Where::current()), dtype));
      }
    }
  }
}

TEST_CASE("binary operators on halves are those on f32, rounded once: arrays, broadcasts, views, numbers") {
  for (DType dtype : kHalves) {
    Generator generator(3);
    const NDArray patterns = every_pattern(dtype);
    const NDArray x = take(patterns.view_as({65536}), generator.integers({90, 70}, 0, 65536));
    const NDArray y = generator.normal({90, 70}, 0, 3, dtype), row = y[5], column = y.slice(1, {2, 3});
    const NDArray turned = generator.normal({70, 90}, 0, 100, dtype).permuted({1, 0});
    for (std::size_t i = 0; i < kBinary.size(); ++i) {
      CAPTURE(i);
      for (const NDArray& b : {y, row, column, turned, x.slice(0, {.step = -1})}) {
        check_same(kBinary[i](x, b, Where::current()),
                   as_result(kBinary[i](wide(x), wide(b), Where::current()), dtype));
        check_same(kBinary[i](b, x, Where::current()),
                   as_result(kBinary[i](wide(b), wide(x), Where::current()), dtype));
      }
      const NDArray tenth = full({}, 0.1, dtype);  // the operator must convert 0.1 to the array's dtype first
      check_same(kBinary[i](x, 0.1, Where::current()),
                 as_result(kBinary[i](wide(x), wide(tenth), Where::current()), dtype));
      check_same(kBinary[i](3, x, Where::current()),
                 as_result(kBinary[i](3, wide(x), Where::current()), dtype));
      const NDArray scalars = full({}, 2.5, dtype);
      check_same(kBinary[i](scalars, scalars, Where::current()),
                 as_result(kBinary[i](wide(scalars), wide(scalars), Where::current()), dtype));
    }
  }
}

TEST_CASE("halves beside other dtypes") {
  const NDArray half = full({2}, 1.5, DType::f16), brain = full({2}, 1.5, DType::bf16);
  CHECK((half + brain).dtype() == DType::f32);
  CHECK((brain + full({2}, 3, DType::i64)).dtype() == DType::bf16);
  CHECK((half + full({2}, 3, DType::i64)).dtype() == DType::f64);
  CHECK((half + full({2}, 3, DType::i8)).dtype() == DType::f16);
  CHECK(numbers(half + full({2}, -3, DType::i8)) == std::vector<float>{-1.5f, -1.5f});
  CHECK(concat({half, brain}, 0).dtype() == DType::f32);
  CHECK(matmul(full({1, 2}, 2, DType::i8), brain).dtype() == DType::bf16);
}

TEST_CASE("changes in place keep the half type") {
  for (DType dtype : kHalves) {
    NDArray x = arange(0, 2000, 1, dtype);
    const NDArray before = x.copy(), seen = x.slice(0, {0, 2000, 2});
    x += 0.5;
    x *= x;
    x -= array<float>({1});
    check_same(x, subtract(wide(square(before + 0.5)), 1.0).astype(dtype));
    check_same(seen, x.slice(0, {0, 2000, 2}).copy());
  }
}

TEST_CASE("elements are chosen, taken and set as they are") {
  for (DType dtype : kHalves) {
    const NDArray x = every_pattern(dtype);
    const NDArray flat = x.view_as({65536}), mask = Generator(1).bernoulli({256, 256}, 0.5, DType::boolean);
    check_same(where(mask, x, 0.1), where(mask, wide(x), wide(full({}, 0.1, dtype))).astype(dtype));
    check_same(where(mask, x.permuted({1, 0}), x[7]),
               where(mask, wide(x).permuted({1, 0}), wide(x)[7]).astype(dtype));
    const NDArray at = array<std::int64_t>({5, 31744, -1});
    check_same(take(flat, at), take(wide(flat), at).astype(dtype));
    CHECK(numbers(one_hot(array<std::int64_t>({1}), 3, dtype)) == std::vector<float>{0, 1, 0});
    check_same(concat({x, x}, 1), concat({wide(x), wide(x)}, 1).astype(dtype));
  }
}

TEST_CASE("sums of halves are made in wider numbers") {
  for (DType dtype : kHalves) {
    const NDArray ones = full({3, 4096}, 1, dtype);
    CHECK(numbers(sum(ones, {1})) == std::vector<float>(3, 4096));
    CHECK(numbers(mean(ones)) == std::vector<float>{1});
    CHECK(numbers(matmul(ones, ones.permuted({1, 0}))) == std::vector<float>(9, 4096));
    CHECK(numbers(linear(ones, ones, full({3}, 1, dtype))) == numbers(full({9}, 4097, dtype)));
    CHECK(numbers(max(ones * 2, {1}, false)) == std::vector<float>(3, 2));
    CHECK(argmax(arange(0, 100, 1, dtype)).item<std::int64_t>() == 99);
  }
}

TEST_CASE("operators of networks on halves are those on f32, rounded once, and so are their gradients") {
  using Network = std::function<NDArray(const NDArray& x, const NDArray& weight)>;
  const NDArray labels = array<std::int64_t>({1, 0, 5});
  const std::vector<Network> networks = {
      [](const NDArray& x, const NDArray& w) {
        return matmul(x, w.permuted({1, 0}).contiguous());
      },
      [](const NDArray& x, const NDArray& w) { return linear(x, w, {}, {.relu = true}); },
      [](const NDArray& x, const NDArray& w) { return softmax(x * 2, -1) + w[0] * 0; },
      [](const NDArray& x, const NDArray&) { return log_softmax(x, 0); },
      [&](const NDArray& x, const NDArray&) { return cross_entropy(x, labels); },
      [](const NDArray& x, const NDArray&) {
        return max_pool2d(reshape(x, {1, 1, 3, 8}), {.kernel = {2, 2}});
      },
      [](const NDArray& x, const NDArray&) {
        return avg_pool2d(reshape(x, {1, 1, 3, 8}), {.kernel = {2, 2}});
      },
      [](const NDArray& x, const NDArray& w) {
        return conv2d(reshape(x, {1, 1, 3, 8}), reshape(w, {4, 1, 2, 4}), {}, {.relu = true});
      },
      [](const NDArray& x, const NDArray&) {
        Generator generator(5);
        return dropout(x, 0.5, generator, true);
      },
      [](const NDArray& x, const NDArray& w) {
        return sum(max(x, {1}, false)) + mean(w) - sum(min(x, {0}, false));
      }};
  for (DType dtype : kHalves) {
    for (std::size_t i = 0; i < networks.size(); ++i) {
      CAPTURE(i);
      NDArray x = Generator(1).normal({3, 8}, 0, 1, dtype), w = Generator(2).normal({4, 8}, 0, 1, dtype);
      NDArray wide_x = wide(x), wide_w = wide(w);
      for (NDArray* leaf : {&x, &w, &wide_x, &wide_w}) set_requires_grad(*leaf);
      const NDArray y = networks[i](x, w), wanted = networks[i](wide_x, wide_w);
      REQUIRE(y.dtype() == dtype);
      const NDArray seed = full(y.shape(), 1, dtype);
      backward(y, seed);
      backward(wanted, wide(seed));
      const float tolerance = dtype == DType::f16 ? 4e-3f : 4e-2f;
      const auto near = [&](const NDArray& a, const NDArray& b) {
        REQUIRE(a.shape() == b.shape());
        const std::vector<float> got = numbers(a), want = numbers(b);
        for (std::size_t k = 0; k < got.size(); ++k)
          CHECK(std::abs(got[k] - want[k]) <= tolerance * std::max(1.0f, std::abs(want[k])));
      };
      near(y, wanted);
      if (!grad(wide_x).defined()) continue;
      REQUIRE(grad(x).dtype() == dtype);
      near(grad(x), grad(wide_x));
    }
  }
}

TEST_CASE("gradients flow through casts between halves and f32") {
  for (DType dtype : kHalves) {
    NDArray x = leaf({1, 2, 3}, DType::f32), y = leaf({1, 2, 3}, dtype);
    backward(sum(square(cast(x, dtype))));
    backward(sum(cast(y, DType::f32) * 3.0));
    CHECK(grad(x).dtype() == DType::f32);
    CHECK(numbers(grad(x)) == std::vector<float>{2, 4, 6});
    CHECK(grad(y).dtype() == dtype);
    CHECK(numbers(grad(y)) == std::vector<float>{3, 3, 3});
  }
}

TEST_CASE("what one element is taken often gives a gradient that is summed in f32") {
  for (DType dtype : kHalves) {
    NDArray x = leaf({1, 2}, dtype);
    const NDArray often = zeros({4096}, DType::i64);
    backward(sum(take(x, often)));
    CHECK(numbers(grad(x)) == std::vector<float>{4096, 0});
  }
}

TEST_CASE("optimizers refuse half weights, and say what to do") {
  const auto sgd = create_optimizer("sgd", {{"lr", 0.1}});
  const NDArray weight = zeros({2}, DType::bf16);
  CHECK_THROWS_WITH_AS(sgd->update(0, weight, weight), doctest::Contains("keep it in f32"), InvalidArgument);
}

TEST_CASE("i8 wraps around, sums as i64, and refuses numbers beyond it") {
  const NDArray x = array<std::int8_t>({127, -128, 5});
  CHECK((x + 1).to_vector<std::int8_t>() == std::vector<std::int8_t>{-128, -127, 6});
  CHECK(negative(x).to_vector<std::int8_t>() == std::vector<std::int8_t>{-127, -128, -5});
  CHECK(abs(x).to_vector<std::int8_t>() == std::vector<std::int8_t>{127, -128, 5});
  CHECK(sum(x).item<std::int64_t>() == 4);
  CHECK(min(x, {}, false).item<std::int8_t>() == -128);
  CHECK(matmul(x, x).item<std::int8_t>() == static_cast<std::int8_t>(127 * 127 + 128 * 128 + 25));
  CHECK((x < 200).to_vector<bool>() == std::vector<bool>{true, true, true});
  CHECK_THROWS_AS(x + 128, InvalidArgument);
  CHECK_THROWS_AS(x - array<std::int8_t>({1, 2}), InvalidArgument);
}

TEST_CASE("halves are not rounded between the steps of one operator") {
  const NDArray a = array<float>({100, 100, 100}), b = array<float>({100.125, 100, 100});
  CHECK(numbers(cross(a.astype(DType::f16), b.astype(DType::f16))) == std::vector<float>{0, 12.5, -12.5});
  for (const DType dtype : kHalves) {
    const NDArray x = Generator(3).uniform({2, 3}, 90, 110, dtype),
                  y = Generator(4).uniform({2, 3}, 90, 110, dtype);
    check_same(cross(x, y), cross(wide(x), wide(y)).astype(dtype));
    check_same(diff(x, 2), diff(wide(x), 2).astype(dtype));
    check_same(kron(x, y), kron(wide(x), wide(y)).astype(dtype));
    check_same(einsum("ij,ij,kj->i", {x, y, x}),
               einsum("ij,ij,kj->i", {wide(x), wide(y), wide(x)}).astype(dtype));
  }
}

TEST_CASE("gradients of elementwise operators on halves are those on f32, rounded once") {
  const std::vector<Unary> unary = {atan, asinh, acosh, cbrt, rsqrt, reciprocal, tan, log2, sinh, sqrt};
  const std::vector<Binary> binary = {multiply,  divide, power,     atan2,  hypot,
                                      logaddexp, fmod,   remainder, maximum};
  const auto check = [](const std::function<NDArray(const NDArray&)>& f, DType dtype, bool create_graph) {
    NDArray x = leaf({1.25, 2.5, 3.75, 5}, dtype),
            seed = array<float>({0.3F, 1.7F, 0.9F, 2.1F}).astype(dtype);
    NDArray wide_x = wide(x).detach().copy();
    set_requires_grad(wide_x);
    const NDArray y = f(x);
    const NDArray got = grad({y}, {x}, {.seeds = {seed}, .create_graph = create_graph})[0].detach();
    const NDArray wanted = grad({f(wide_x)}, {wide_x}, {.seeds = {wide(seed)}})[0];
    const std::vector<float> g = numbers(got), w = numbers(wanted);
    // Tolerance: up to three roundings of the result.
    const float share = (dtype == DType::f16 ? 0x1p-11F : 0x1p-8F) * 4;
    for (std::size_t i = 0; i < g.size(); ++i)
      if (std::abs(w[i]) > 1e-4F) CHECK(std::abs(g[i] - w[i]) <= share * std::abs(w[i]));
  };
  for (const DType dtype : kHalves) {
    for (const bool create_graph : {false, true}) {
      for (const Unary& f : unary)
        check([&](const NDArray& x) { return f(x, Where::current()); }, dtype, create_graph);
      for (const Binary& f : binary) {
        check([&](const NDArray& x) { return f(x, 1.5, Where::current()); }, dtype, create_graph);
        check([&](const NDArray& x) { return f(2.5, x, Where::current()); }, dtype, create_graph);
      }
    }
  }
  // The gradient must be right although the square of 300 exceeds the range of f16.
  NDArray x = leaf({300}, DType::f16);
  backward(atan(x) * 1000);
  CHECK(numbers(grad(x))[0] == doctest::Approx(1000 / 90001.0).epsilon(1e-3));
}

}  // namespace heddle
