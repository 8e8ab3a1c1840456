// Spellings of NumPy's users: keys in brackets, writing through them, literals.
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/elementwise_math.h>
#include <heddle/ops.h>
#include <heddle/reduce.h>
#include <heddle/scatter.h>

using namespace heddle;

namespace {

using Floats = std::vector<float>;
Floats of(const NDArray& x) { return x.to_vector<float>(); }
NDArray numbers() { return arange(6).view_as({2, 3}); }

}  // namespace

TEST_CASE("what is assigned to a part is written into the array; a variable gets another array") {
  const NDArray x = numbers();
  x[0] = 9;
  CHECK(of(x) == Floats{9, 9, 9, 3, 4, 5});
  x[1] = x[0] + 1;
  CHECK(of(x) == Floats{9, 9, 9, 10, 10, 10});
  x(1, 2) = 2.5;
  x(0, -1) = true;
  CHECK(of(x) == Floats{9, 9, 1, 10, 10, 2.5});
  x[0] += 1;
  x[1] *= x[0];
  x(kAll, 0) -= 10;
  x(kAll, 1) /= 10;
  CHECK(of(x) == Floats{0, 1, 2, 90, 10, 5});
  NDArray y = x;
  y = ones({2});
  CHECK(of(x)[0] == 0);
  CHECK(y.shape() == Shape{2});
  const NDArray big = zeros(2, DType::u64);
  big[1] = ~std::uint64_t{0};
  CHECK(big.to_vector<std::uint64_t>() == std::vector<std::uint64_t>{0, ~std::uint64_t{0}});
  CHECK_THROWS_WITH_AS(x[0] = zeros(2),
                       "assign: a source of shape (2,) does not broadcast to a target of shape (3,)",
                       InvalidArgument);
}

TEST_CASE("keys take an axis each: numbers, ranges, new axes, and an ellipsis for the rest") {
  const NDArray x = arange(24).view_as({2, 3, 4});
  CHECK(x(1, 2, 3).item<float>() == 23);
  CHECK(x(-1, 0, -4).item<float>() == 12);
  CHECK(x(1).shape() == Shape{3, 4});
  CHECK(of(x(0, Slice{.begin = 1}, 0)) == Floats{4, 8});
  CHECK(of(x(kEllipsis, -1)) == Floats{3, 7, 11, 15, 19, 23});
  CHECK(of(x(1, kEllipsis, Slice{.step = -2})) == Floats{15, 13, 19, 17, 23, 21});
  CHECK(x(kAll, kNewAxis, 0, kEllipsis, kNewAxis).shape() == Shape{2, 1, 4, 1});
  CHECK(x(kEllipsis).shape() == x.shape());
  CHECK(x(0, 1, 2, kEllipsis).item<float>() == 6);
  CHECK_THROWS_WITH_AS(x(0, 0, 0, 0), "operator(): 4 keys and 0 ellipses for shape (2, 3, 4)",
                       InvalidArgument);
  CHECK_THROWS_WITH_AS(x(kEllipsis, 0, kEllipsis), "operator(): 1 keys and 2 ellipses for shape (2, 3, 4)",
                       InvalidArgument);
  CHECK_THROWS_WITH_AS(x(0, 3), "operator(): index 3 is outside axis 0 of shape (3, 4)", InvalidArgument);
}

TEST_CASE("gradients go through keys") {
  NDArray x = numbers();
  set_requires_grad(x);
  backward(sum(x(kNewAxis, 1, Slice{.step = 2}) * 3));
  CHECK(of(grad(x)) == Floats{0, 0, 0, 3, 0, 3});
  CHECK_THROWS_AS(x(0, 0) = x[1][0], Error);
}

TEST_CASE("a mask reads and writes the elements where it is true") {
  const NDArray x = numbers();
  const NDArray even = x % 2 == 0;
  const NDArray picked = x[even];
  CHECK(of(picked) == Floats{0, 2, 4});
  CHECK(of(x[even] + 1) == Floats{1, 3, 5});
  x[x > 3] = -1;
  CHECK(of(x) == Floats{0, 1, 2, 3, -1, -1});
  x[even] = array({7, 8, 9});
  CHECK(of(x) == Floats{7, 1, 8, 3, 9, -1});
  x[even] += 0.5;
  CHECK(of(x) == Floats{7.5, 1, 8.5, 3, 9.5, -1});
  x[even] = ones({});
  CHECK_THROWS_AS(x[x < 0] = x[even], InvalidArgument);  // three elements for one
  CHECK_THROWS_AS(x[x > 0] = x, InvalidArgument);
  x[x < 0] = 1;
  CHECK(of(x) == Floats{1, 1, 1, 3, 1, 1});
  x(0)[x(0) == 1] = 4;
  CHECK(of(x) == Floats{4, 4, 4, 3, 1, 1});
  CHECK_THROWS_WITH_AS(x[array({true, false, true})] = 0,
                       "operator[]: a mask of shape (3,) for an array of shape (2, 3); wanted the same axes, "
                       "or the first ones",
                       InvalidArgument);
}

TEST_CASE("a mask of the first axes reads and writes entries of the others") {
  const NDArray x = numbers(), second = array({false, true});
  CHECK(NDArray(x[second]).shape() == Shape{1, 3});
  CHECK(of(x[second]) == Floats{3, 4, 5});
  x[second] = array({7, 8, 9});
  CHECK(of(x) == Floats{0, 1, 2, 7, 8, 9});
  x[array({true, true})] = array({{1, 2, 3}, {4, 5, 6}});
  CHECK(of(x) == Floats{1, 2, 3, 4, 5, 6});
  x[array({true, true})] = array({{1}, {4}});
  CHECK(of(x) == Floats{1, 1, 1, 4, 4, 4});
  x[array({true, true})] = array({{1, 2, 3}, {4, 5, 6}});
  x[second] -= 4;
  CHECK(of(x) == Floats{1, 2, 3, 0, 1, 2});
  CHECK(NDArray(x[array({false, false})]).shape() == Shape{0, 3});
}

TEST_CASE("indices read and write entries of axis 0") {
  const NDArray x = numbers(), last = array<std::int64_t>({-1, 0});
  CHECK(of(x[last]) == Floats{3, 4, 5, 0, 1, 2});
  x[last] = array({{1, 2, 3}, {4, 5, 6}});
  CHECK(of(x) == Floats{4, 5, 6, 1, 2, 3});
  x[array<std::int64_t>({0, 0})] *= 2;  // once
  CHECK(of(x) == Floats{8, 10, 12, 1, 2, 3});
  CHECK_THROWS_AS(x[array({0.5})] = 1, InvalidArgument);
}

TEST_CASE("literals") {
  CHECK(array({1.5, 2}).dtype() == DType::f32);
  CHECK(array<double>({1.5}).dtype() == DType::f64);
  CHECK(array({1, 2}).dtype() == DType::i32);
  CHECK(array({{1, 2}, {3, 4}}).to_vector<std::int32_t>() == std::vector<std::int32_t>{1, 2, 3, 4});
  CHECK(array({{0.5, 1}, {2, 3}}).shape() == Shape{2, 2});
  CHECK(array({{true}, {false}}).dtype() == DType::boolean);
  CHECK_THROWS_WITH_AS(array({{1, 2}, {3}}), "array: rows of 2 and of 1 values; wanted rows of one length",
                       InvalidArgument);
  CHECK((ones(3) * 2.5 + array({1.5, 2.5, 3.5})).dtype() == DType::f32);
  CHECK(zeros(3).shape() == Shape{3});
  CHECK(of(arange(3)) == Floats{0, 1, 2});
  CHECK(arange(3, DType::i64).dtype() == DType::i64);
}

TEST_CASE("one axis is a number; two arrays have a maximum") {
  const NDArray x = numbers();
  CHECK(of(sum(x, 0)) == Floats{3, 5, 7});
  CHECK(of(max(x, 1)) == Floats{2, 5});
  CHECK(of(max(x, x[1])) == Floats{3, 4, 5, 3, 4, 5});
  CHECK(of(min(x, ones(3))) == Floats{0, 1, 1, 1, 1, 1});
  CHECK(argmax(x).item<std::int64_t>() == 5);
}
