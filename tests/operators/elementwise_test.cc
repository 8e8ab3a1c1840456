#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/error.h>
#include <heddle/ops.h>

namespace heddle {

namespace {

using Floats = std::vector<float>;
using Ints = std::vector<std::int32_t>;

const NDArray kNone;

}  // namespace

TEST_CASE("operators of C++ are the functions") {
  const NDArray a = array<float>({6, 8}), b = array<float>({2, 4});
  CHECK((a + b).to_vector<float>() == Floats{8, 12});
  CHECK((a - b).to_vector<float>() == Floats{4, 4});
  CHECK((a * b).to_vector<float>() == Floats{12, 32});
  CHECK((a / b).to_vector<float>() == Floats{3, 2});
  CHECK((-a).to_vector<float>() == Floats{-6, -8});
  CHECK((10 - a).to_vector<float>() == Floats{4, 2});
  CHECK((1.0f / b).to_vector<float>() == Floats{0.5f, 0.25f});
  CHECK((a < 7).to_vector<bool>() == std::vector<bool>{true, false});
  CHECK((7 <= a).to_vector<bool>() == std::vector<bool>{false, true});
  CHECK((a > 6).to_vector<bool>() == std::vector<bool>{false, true});
  CHECK((a >= 6).to_vector<bool>() == std::vector<bool>{true, true});
}

TEST_CASE("a number beside an array takes its dtype where its kind allows") {
  const NDArray f = zeros({2}), i = zeros({2}, DType::i32), u = zeros({2}, DType::u8),
                b = zeros({2}, DType::boolean);
  CHECK((f * 2.5).dtype() == DType::f32);
  CHECK((i * 2).dtype() == DType::i32);
  CHECK((i * 2.5).dtype() == DType::f64);
  CHECK((i * 2.0).dtype() == DType::f64);
  CHECK((i / 2).dtype() == DType::f64);
  CHECK((u + 1).dtype() == DType::u8);
  CHECK((b + 1).dtype() == DType::i64);
  CHECK((b < 1).dtype() == DType::boolean);
  CHECK(where(b, 1, 2).dtype() == DType::i64);
  CHECK(where(b, 1, 2.5).dtype() == DType::f32);
  CHECK((ones({2}) * where(b, 1.0, 0.0)).dtype() == DType::f32);
  CHECK(where(b, f, 2.5).dtype() == DType::f32);
}

TEST_CASE("true and false beside bools stay bool") {
  const NDArray b = array({true, false}), i = zeros({2}, DType::i32);
  CHECK((b + true).dtype() == DType::boolean);
  CHECK((b * true).to_vector<bool>() == std::vector<bool>{true, false});
  CHECK(where(b, true, false).to_vector<bool>() == std::vector<bool>{true, false});
  CHECK(where(b, b, true).to_vector<bool>() == std::vector<bool>{true, true});
  CHECK(where(b, true, 2).dtype() == DType::i64);
  CHECK(clip(b, false, false).to_vector<bool>() == std::vector<bool>{false, false});
  CHECK((i + true).to_vector<std::int32_t>() == Ints{1, 1});
}

TEST_CASE("numbers beyond an integer dtype") {
  const NDArray u = array<std::uint8_t>({0, 255}), i = array<std::int32_t>({-1, 1});
  const std::vector<bool> all{true, true}, none{false, false};
  CHECK((u < 300).to_vector<bool>() == all);
  CHECK((-1 < u).to_vector<bool>() == all);
  CHECK(equal(u, -1).to_vector<bool>() == none);
  CHECK(not_equal(u, 511).to_vector<bool>() == all);
  CHECK((i > (std::int64_t{1} << 40)).to_vector<bool>() == none);
  CHECK((i < std::uint64_t{1} << 63).to_vector<bool>() == all);
  const std::uint64_t huge = ~std::uint64_t{0};
  CHECK((ones({1}) * huge).to_vector<float>() == Floats{0x1p64f});
  CHECK((ones({1}, DType::u64) * huge).to_vector<std::uint64_t>() == std::vector{huge});
  CHECK_THROWS_WITH_AS(ones({1}, DType::i64) + huge, "add: 18446744073709551615 does not fit i64",
                       InvalidArgument);
  CHECK((ones({1}, DType::i64) + (huge >> 1)).dtype() == DType::i64);
}

TEST_CASE("integers compare exactly with one above an int64, which f64 rounds the largest of them to") {
  const NDArray x = array<std::int64_t>({std::numeric_limits<std::int64_t>::max(), -1});
  const std::vector<bool> all{true, true}, none{false, false};
  for (const std::uint64_t huge : {std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    CHECK((x < huge).to_vector<bool>() == all);
    CHECK((x <= huge).to_vector<bool>() == all);
    CHECK((huge > x).to_vector<bool>() == all);
    CHECK(not_equal(x, huge).to_vector<bool>() == all);
    CHECK(equal(huge, x).to_vector<bool>() == none);
    CHECK((x >= huge).to_vector<bool>() == none);
    CHECK((huge <= x).to_vector<bool>() == none);
    CHECK(equal(array<bool>({true, false}), huge).to_vector<bool>() == none);
  }
  const auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  CHECK(equal(x, largest).to_vector<bool>() == std::vector<bool>{true, false});
  // floating arrays, and comparisons with floating numbers, compare exactly
  CHECK(equal(array<double>({0x1p63, 1}), std::uint64_t{1} << 63).to_vector<bool>() ==
        std::vector<bool>{true, false});
  CHECK(equal(x, 0x1p63).to_vector<bool>() == std::vector<bool>{true, false});
}

TEST_CASE("bad operands are found at the call") {
  const NDArray a = zeros({2, 3}), b = zeros({4});
  CHECK_THROWS_AS(a + b, InvalidArgument);
  CHECK_THROWS_WITH_AS(add(1, 2), "add: two scalars; wanted at least one array", InvalidArgument);
  CHECK_THROWS_WITH_AS(
      add(a, kNone),
      "add: an array is undefined: made without a shape, moved from, or a gradient before backward()",
      InvalidArgument);
  CHECK_THROWS_AS(add(kNone, 1), InvalidArgument);
  CHECK_THROWS_AS(relu(kNone), InvalidArgument);
  CHECK_THROWS_WITH_AS(a + zeros({2, 3}, DType::f32, cpu(1)),
                       "add: arrays on cpu(0) and cpu(1); copy_to() one of them", InvalidArgument);
  CHECK_THROWS_WITH_AS(zeros({2}, DType::u8) + 300, "add: 300 does not fit u8", InvalidArgument);
  CHECK_THROWS_AS(zeros({2}, DType::i32) * (std::int64_t{1} << 40), InvalidArgument);
  CHECK_THROWS_WITH_AS(negative(zeros({2}, DType::boolean)), "negative: dtype bool; wanted a number's",
                       InvalidArgument);
  CHECK_THROWS_AS(zeros({2}, DType::boolean) - zeros({2}, DType::boolean), InvalidArgument);
  CHECK_THROWS_WITH_AS(where(a, a, a), "where: condition has dtype f32; wanted bool", InvalidArgument);
  CHECK_THROWS_AS(clip(a, 2, 1), InvalidArgument);
  CHECK_THROWS_WITH_AS(power(zeros({2}, DType::i64), -1), "power: an integer to a negative integer power: -1",
                       InvalidArgument);
  CHECK(power(full({1}, 2), -1).item<float>() == 0.5f);
}

TEST_CASE("shapes that do not broadcast are named with their operator") {
  bool thrown = false;
  try {
    zeros({2, 3}) * zeros({4});
  } catch (const InvalidArgument& error) {
    thrown = true;
    const std::string what = error.message();
    CHECK(what.starts_with("multiply: "));
    CHECK(what.find("(2, 3)") != std::string::npos);
    CHECK(what.find("(4,)") != std::string::npos);
  }
  CHECK(thrown);
}

TEST_CASE("an integer to a negative power is an op error") {
  const NDArray y = power(array<std::int32_t>({2, 3}), array<std::int32_t>({1, -1}));
  CHECK_THROWS_WITH_AS(y.wait(), "power: an integer to a negative integer power", Error);
}

TEST_CASE("changes in place are seen through views and keep the dtype") {
  NDArray x = zeros({2, 3});
  const NDArray row = x[1];
  x += 1;
  x *= array<float>({1, 2, 3});
  CHECK(row.to_vector<float>() == Floats{1, 2, 3});
  NDArray part = x.slice(1, {0, 2});
  part -= full({2, 1}, 0.5);
  CHECK(x.to_vector<float>() == Floats{0.5, 1.5, 3, 0.5, 1.5, 3});
  x /= array<double>({2.0}, Shape{});
  CHECK(x.dtype() == DType::f32);
  CHECK(x[0].to_vector<float>() == Floats{0.25, 0.75, 1.5});
  NDArray i = arange(0, 3, 1, DType::i32);
  i += arange(0, 3, 1, DType::i64);
  CHECK(i.to_vector<std::int32_t>() == Ints{0, 2, 4});
}

TEST_CASE("the other changes in place") {
  const NDArray x = array({7, -7, 9}), bits = array({1, 2, 4}), on = array({true, false, true});
  x %= 4;
  CHECK(x.to_vector<std::int32_t>() == Ints{3, 1, 1});
  floor_divide_(x, 2);
  CHECK(x.to_vector<std::int32_t>() == Ints{1, 0, 0});
  power_(x += 2, 3);
  CHECK(x.to_vector<std::int32_t>() == Ints{27, 8, 8});
  bits |= 1;
  bits <<= 2;
  bits ^= array({0, 4, 16});
  CHECK(bits.to_vector<std::int32_t>() == Ints{4, 8, 4});
  bits &= 12;
  bits >>= 1;
  CHECK(bits.to_vector<std::int32_t>() == Ints{2, 4, 2});
  on &= array({true, true, false});
  CHECK(on.to_vector<bool>() == std::vector<bool>{true, false, false});
  bits[bits > 2] %= 3;
  CHECK(bits.to_vector<std::int32_t>() == Ints{2, 1, 2});
  CHECK_THROWS_WITH_AS(power_(x, -1), "power_: an integer to a negative integer power: -1", InvalidArgument);
  CHECK_THROWS_WITH_AS(zeros({2}) &= 1, "bitwise_and_: dtype f32; wanted an integer's or bool",
                       InvalidArgument);
  CHECK_THROWS_WITH_AS(x %= 0.5, "remainder_: a result of dtype f64 does not fit i32", InvalidArgument);
}

TEST_CASE("changes in place read what they overwrite as it was") {
  NDArray x = arange(0, 9).view_as({3, 3});
  x += x.permuted({1, 0});
  CHECK(x.to_vector<float>() == Floats{0, 4, 8, 4, 8, 12, 8, 12, 16});
  NDArray y = arange(0, 5);
  NDArray head = y.slice(0, {1, 5});
  head += y.slice(0, {0, 4});
  CHECK(y.to_vector<float>() == Floats{0, 1, 3, 5, 7});
  NDArray z = arange(0, 3);
  z *= z;
  CHECK(z.to_vector<float>() == Floats{0, 1, 4});
}

TEST_CASE("a change in place that cannot be is found at the call") {
  NDArray x = zeros({3}), i = zeros({3}, DType::i32), b = zeros({3}, DType::boolean);
  CHECK_THROWS_WITH_AS(x += zeros({2, 3}),
                       "add_: an operand of shape (2, 3) does not broadcast to a target of shape (3,)",
                       InvalidArgument);
  CHECK_THROWS_WITH_AS(i += 0.5, "add_: a result of dtype f64 does not fit i32", InvalidArgument);
  CHECK_THROWS_AS(i /= 2, InvalidArgument);
  CHECK_THROWS_AS(b += i, InvalidArgument);
  NDArray wide = zeros({1}).broadcast_view({4});
  CHECK_THROWS_WITH_AS(wide += 1, "add_: elements of a view of shape (4,) with strides (0,) share memory",
                       InvalidArgument);
  NDArray windows = zeros({4}).view({3, 2}, {1, 1}, 0), rows = zeros({4}).view({2, 2}, {1, 2}, 0);
  CHECK_THROWS_AS(windows += 1, InvalidArgument);
  CHECK_THROWS_AS(windows *= windows, InvalidArgument);
  rows += 1;
  CHECK(rows.to_vector<float>() == Floats{1, 1, 1, 1});
}

TEST_CASE("an op's error poisons what is computed from it") {
  NDArray x = zeros({3});
  x.engine().push([] { throw Error("no value"); }, {.mutate = {x.var()}, .name = "fail"});
  const NDArray y = relu(x + 1) * 2;
  CHECK_THROWS_WITH(y.wait(), "no value");
  x += 1;  // this op reads x, so it is skipped, and the error of x stays
  CHECK_THROWS_WITH(x.wait(), "no value");
  x.fill(2);
  CHECK((x + 1).to_vector<float>() == Floats{3, 3, 3});
}

TEST_CASE("many axes of broadcasting and odd strides") {
  const NDArray a = arange(0, 2 * 3 * 2 * 3, 1, DType::i64).view_as({2, 1, 3, 1, 2, 1, 3, 1});
  const NDArray b = arange(0, 16, 1, DType::i64).view_as({1, 2, 1, 2, 1, 2, 1, 2});
  const std::vector<std::int64_t> sums = (a + b).to_vector<std::int64_t>();
  REQUIRE(sums.size() == 36 * 16);
  std::size_t at = 0;
  for (int i = 0; i < 36 * 16; ++i) {
    int rest = i, ai = 0, bi = 0, a_scale = 1, b_scale = 1;
    for (int axis = 7; axis >= 0; --axis) {
      const int size = axis % 2 ? 2 : (axis == 2 || axis == 6 ? 3 : 2);
      const int digit = rest % size;
      rest /= size;
      if (axis % 2)
        bi += digit * b_scale, b_scale *= 2;
      else
        ai += digit * a_scale, a_scale *= size;
    }
    REQUIRE(sums[at++] == ai + bi);
  }
}

}  // namespace heddle
