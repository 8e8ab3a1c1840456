// Indexing as in NumPy: keys in brackets, assignments through them, literals.
#include <cstdint>
#include <message_of.h>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/elementwise_math.h>
#include <heddle/embedding.h>
#include <heddle/indexing.h>
#include <heddle/ops.h>
#include <heddle/reduce.h>
#include <heddle/scatter.h>
#include <heddle/sorting.h>

using namespace heddle;
using namespace heddle::test;

namespace {

using Floats = std::vector<float>;
Floats of(const NDArray& x) { return x.to_vector<float>(); }
NDArray numbers() { return arange(6).view_as({2, 3}); }

template <class T>
concept has_three_levels = requires(T x) {
  array({{{x, x}}, {{x, x}}});
};
template <class T>
concept has_four_levels = requires(T x) {
  array({{{{x}}}});
}
|| requires(T x) { array({{{{x, x}}}}); }
|| requires(T x) { array({{{{x, 2.5F}}}}); };
template <class T, class To>
concept has_four_levels_as = requires(T x) {
  array<To>({{{{x}}}});
};

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
  CHECK_THROWS_WITH_AS(x(0, 0, 0, 0), "operator(): keys for 4 axes of an array of shape (2, 3, 4)",
                       InvalidArgument);
  CHECK_THROWS_WITH_AS(x(kEllipsis, 0, kEllipsis), "operator(): 2 ellipses; wanted one at most",
                       InvalidArgument);
  CHECK_THROWS_WITH_AS(x(0, 3),
                       "operator(): index 3 is out of range for axis 1 of size 3, in shape (2, 3, 4)",
                       InvalidArgument);
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
  CHECK_THROWS_AS(x[x < 0] = x[even], InvalidArgument);  // assigns three elements to one position
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
  x[array<std::int64_t>({0, 0})] *= 2;  // row 0, although listed twice, is doubled once
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
  CHECK_THROWS_WITH_AS(array({{1, 2}, {3}}), "array: lists of 2 and of 1 values; wanted lists of one length",
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

TEST_CASE("arrays of indices and masks stand anywhere among the keys") {
  const NDArray x = arange(24).view_as({2, 3, 4}), ends = array({0, -1}), some = array({true, false, true});
  CHECK(of(x(kAll, ends, 0)) == Floats{0, 8, 12, 20});
  // Indices and index arrays that are not adjacent among the keys: their axis comes first in the result.
  CHECK(of(x(1, kAll, ends)) == Floats{12, 16, 20, 15, 19, 23});
  CHECK(of(x(ends, 0, ends)) == Floats{0, 15});
  CHECK(of(x(kAll, some, 3)) == Floats{3, 11, 15, 23});
  CHECK(NDArray(x(kEllipsis, ends)).shape() == Shape{2, 3, 2});
  CHECK(NDArray(x(ends, kNewAxis, ends)).shape() == Shape{2, 1, 4});
  x(kAll, ends, 1) = 5;
  x(0, some, ends) += 100;
  x(1, array<std::uint8_t>({1}), Slice{.begin = 2}) = array({7, 8});
  CHECK(of(x(0)) == Floats{100, 5, 2, 3, 4, 5, 6, 7, 8, 5, 10, 111});
  CHECK(of(x(1, 1)) == Floats{16, 17, 7, 8});
  CHECK_THROWS_WITH_AS(NDArray(x(ends, ends, ends, ends)),
                       "operator[]: keys for 4 axes of an array of shape (2, 3, 4)", InvalidIndex);
  CHECK_THROWS_AS(x(0, NDArray()), InvalidArgument);
  CHECK_THROWS_AS(NDArray(x(0, array({true}))), InvalidIndex);
}

TEST_CASE("a mask without axes chooses all or nothing") {
  const NDArray y = full({}, 3), x = arange(6).view_as({2, 3});
  CHECK(of(y[y > 0]) == Floats{3});
  CHECK(NDArray(y[y < 0]).shape() == Shape{0});
  y[y > 0] = 5;
  y[y < 5] = 7;
  CHECK(of(y) == Floats{5});
  CHECK(NDArray(x(kAll, full({}, true, DType::boolean), 1)).shape() == Shape{2, 1});
  NDArray w = arange(3);
  set_requires_grad(w);
  backward(sum(NDArray(w[full({}, true, DType::boolean)]) * 2));
  CHECK(of(grad(w)) == Floats{2, 2, 2});
}

TEST_CASE("what is chosen by keys is changed under the rules of arrays") {
  const NDArray x = arange(4, DType::i64), large = x > 1;
  CHECK_THROWS_WITH_AS(x[large] *= 0.5, "multiply_: a result of dtype f64 does not fit i64", InvalidArgument);
  CHECK_THROWS_AS(x[array({0, 1})] += 0.9, InvalidArgument);
  CHECK_THROWS_AS(x[large] += ones(3, DType::i64), InvalidArgument);
  x(Slice{.end = 1}) = x[x == 3];
  x[large] = x[array({0, 0})];
  CHECK(x.to_vector<std::int64_t>() == std::vector<std::int64_t>{3, 1, 3, 3});
  NDArray leaf = ones(4);
  set_requires_grad(leaf);
  const NDArray plain = ones(4), y = leaf * 2;
  CHECK_THROWS_AS(plain[large] = leaf, Error);
  CHECK_THROWS_AS(plain[array({0, 1})] += leaf[0], Error);
  CHECK_THROWS_AS(y[large] = 1, Error);
  CHECK_THROWS_AS(leaf[large] += 1, Error);  // changing a leaf in place is refused, as `leaf += 1` is
  CHECK_THROWS_AS(leaf(Slice{.begin = 1})[array({0})] *= 2, Error);
  {
    const NoGrad off;
    leaf[array({0})] += 1;
  }
  CHECK(of(leaf) == Floats{2, 1, 1, 1});
  CHECK_THROWS_AS(Chosen(plain, {IndexKey(kAll)}, Where::current()), InvalidArgument);
}

TEST_CASE("what is chosen is used as an array") {
  const NDArray x = arange(4), m = x > 1;
  CHECK(x[m].shape() == Shape{2});
  CHECK(x[m].size() == 2);
  CHECK(x[m].to_vector<float>() == Floats{2, 3});
  CHECK(x[x == 2].item<float>() == 2);
  CHECK(of(-x[m]) == Floats{-2, -3});
  CHECK((!m[m]).to_vector<bool>() == std::vector<bool>{false, false});
  x[array({0, 1})] = array({{5, 6}});  // the leading axis of length 1 of the value is dropped
  x(Slice{.begin = 2}) = array({{7, 8}});
  CHECK(of(x) == Floats{5, 6, 7, 8});
}

TEST_CASE("constant handles are changed in place, as their parts are") {
  const NDArray x = ones(2);
  x += 1;
  (x *= 3) -= array({1, 2});
  x /= 2;
  CHECK(of(x) == Floats{2.5, 2});
}

TEST_CASE("literals of several types, and of types that no dtype has") {
  const std::int64_t n = 3;
  CHECK(array({0, n}).dtype() == DType::i64);
  CHECK(array({1, 2.5}).dtype() == DType::f32);
  CHECK(array({1ULL, 2ULL}).dtype() == DType::u64);
  CHECK(array({1LL}).dtype() == DType::i64);
  CHECK(array({'a'}).to_vector<std::int8_t>() == std::vector<std::int8_t>{97});
  CHECK_THROWS_AS(array({-1, ~0ULL}), InvalidArgument);
  CHECK(array({1, ~0ULL}).to_vector<std::uint64_t>() == std::vector<std::uint64_t>{1, ~std::uint64_t{0}});
  CHECK(array({{1.5}}).shape() == Shape{1, 1});
  CHECK(array({{1.5, 2}, {3, 4}}).dtype() == DType::f32);
  CHECK(array<double>({{1, 2}, {3, 4}}).dtype() == DType::f64);
  CHECK_THROWS_WITH_AS(array({{1, 2}, {3}}), "array: lists of 2 and of 1 values; wanted lists of one length",
                       InvalidArgument);
}

TEST_CASE("literals of no axis and of three") {
  CHECK(array(1.5).shape() == Shape{});
  CHECK(array(1.5).dtype() == DType::f32);
  CHECK(array<double>(1.5).dtype() == DType::f64);
  CHECK(array(7).item<std::int32_t>() == 7);
  CHECK(array(7LL).dtype() == DType::i64);
  CHECK(array(true).item<bool>());
  CHECK(array(Float16(2)).dtype() == DType::f16);
  const NDArray blocks = array({{{1, 2, 3}, {4, 5, 6}}, {{7, 8, 9}, {10, 11, 12}}});
  CHECK(blocks.shape() == Shape{2, 2, 3});
  CHECK(blocks.dtype() == DType::i32);
  CHECK(blocks(1, 0, 2).item<std::int32_t>() == 9);
  CHECK(array({{{1.5}, {2.5}}}).dtype() == DType::f32);
  CHECK(array<double>({{{1.5, 2}, {2.5, 3}}}).shape() == Shape{1, 2, 2});
  CHECK(array({{{1, 2.5}}}).dtype() == DType::f32);
  CHECK_THROWS_AS(array({{{1, 2}}, {{1, 2}, {3, 4}}}), InvalidArgument);
}

TEST_CASE("literals whose lists of a level differ in length, across the lists around them too, are refused") {
  const std::string message = "array: lists of 2 and of 1 values; wanted lists of one length";
  CHECK(message_of([] { array({{{1, 2}}, {{3}}, {{4, 5, 6}}}); }) == message);
  CHECK(message_of([] { array({{{1.5, 2.5}}, {{3.5}}, {{4.5, 5.5, 6.5}}}); }) == message);
  CHECK(message_of([] { array<double>({{{1, 2}}, {{3}}, {{4, 5, 6}}}); }) == message);
  CHECK(message_of([] { array({{{1, 2.5}}, {{3}}, {{4, 5, 6}}}); }) == message);
  CHECK_THROWS_AS(array({{{1, 2.5}}, {{3, 4.5, 6}}, {{4}}}), InvalidArgument);
  CHECK_THROWS_AS(array<float>({{}, {{1}}}), InvalidArgument);
  CHECK_THROWS_AS(array<float>({{{}, {}}, {}}), InvalidArgument);
}

TEST_CASE("a literal has no axis behind a list that is empty") {
  CHECK(array<float>({}).shape() == Shape{0});
  CHECK(array<float>({{}}).shape() == Shape{1, 0});
  CHECK(array<std::int64_t>({{}, {}}).shape() == Shape{2, 0});
  CHECK(array<bool>({{{}}, {{}}}).shape() == Shape{2, 1, 0});
  CHECK(array<float>({}).dtype() == DType::f32);
  CHECK(array<double>({}).shape() == Shape{0});
  CHECK(array<double>({{}, {}}).shape() == Shape{2, 0});
  CHECK(array<double>({{}}).dtype() == DType::f64);
}

TEST_CASE("literals of one column") {
  CHECK(array({{1LL}, {2LL}}).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 2});
  CHECK(array({{1LL}, {2LL}}).shape() == Shape{2, 1});
  CHECK(array({{1LL}}).shape() == Shape{1, 1});
  CHECK(array({{1ULL}, {2ULL}}).dtype() == DType::u64);
  CHECK(array({{'a'}, {'b'}}).to_vector<std::int8_t>() == std::vector<std::int8_t>{97, 98});
  CHECK(array({{{1LL}}}).shape() == Shape{1, 1, 1});
  CHECK(array({{{1ULL}, {2ULL}}}).dtype() == DType::u64);
  CHECK(array({{{'a'}}, {{'b'}}}).shape() == Shape{2, 1, 1});
  CHECK(array<double>({{1}, {2}}).shape() == Shape{2, 1});
  CHECK(array<double>({{{1}}, {{2}}}).to_vector<double>() == std::vector<double>{1, 2});
  CHECK(array<double>({{1}, {2}}, cpu(1)).device() == cpu(1));
  CHECK(array({{1.5}, {2.5}}, cpu(1)).dtype() == DType::f32);
}

TEST_CASE("literals of four levels do not compile") {
  CHECK((has_three_levels<int> && has_three_levels<double> && has_three_levels<long long>));
  CHECK_FALSE((has_four_levels<int> || has_four_levels<double> || has_four_levels<long long>));
  CHECK_FALSE((has_four_levels_as<int, float> || has_four_levels_as<int, double>));
}

TEST_CASE("numbers of 16 bits stand beside arrays and are assigned") {
  const NDArray x = ones(3);
  x[x > 0] = Float16(2);
  x(0) = BFloat16(4);
  CHECK(of(x * Float16(0.5F)) == Floats{2, 1, 1});
}

TEST_CASE("a slice in brackets") {
  const NDArray x = arange(6).view_as({3, 2});
  CHECK(of(x[Slice{1, 3}]) == Floats{2, 3, 4, 5});
  CHECK(of(x[Slice{.step = -1}]) == Floats{4, 5, 2, 3, 0, 1});
  x[kAll] = 7;
  CHECK(of(x) == Floats(6, 7));
  CHECK_THROWS_AS(array(1)[kAll], InvalidArgument);
}

TEST_CASE("ranges of integers are exact") {
  const std::int64_t far = std::int64_t{1} << 62;
  CHECK(arange(far, far + 3, 2, DType::i64).to_vector<std::int64_t>() == std::vector{far, far + 2});
  CHECK(arange(~0ULL, ~0ULL - 2, -1, DType::u64).to_vector<std::uint64_t>() ==
        std::vector<std::uint64_t>{~0ULL, ~0ULL - 1});
  CHECK(arange(3, 0, 1).size() == 0);
  CHECK(arange(-5, 5, 3, DType::i32).to_vector<std::int32_t>() == std::vector<std::int32_t>{-5, -2, 1, 4});
  CHECK(arange(0, 300, 100, DType::i8).to_vector<std::int8_t>() == std::vector<std::int8_t>{0, 100, 127});
  CHECK(of(arange(0, 1, 0.25)) == Floats{0, 0.25, 0.5, 0.75});
  CHECK_THROWS_AS(arange(0, 5, 0), InvalidArgument);
}

TEST_CASE("i64 and u64 are compared with all their digits") {
  const NDArray s = array<std::int64_t>({-1, 0, INT64_MAX, INT64_MAX, 5});
  const NDArray u = array<std::uint64_t>({~0ULL, 0, 1ULL << 63, INT64_MAX, 4});
  const auto is = [](const NDArray& x) { return x.to_vector<bool>(); };
  using Bools = std::vector<bool>;
  CHECK(is(equal(s, u)) == Bools{false, true, false, true, false});
  CHECK(is(not_equal(u, s)) == Bools{true, false, true, false, true});
  CHECK(is(s < u) == Bools{true, false, true, false, false});
  CHECK(is(u <= s) == Bools{false, true, false, true, true});
  CHECK(is(s > u) == Bools{false, false, false, false, true});
  CHECK(is(u >= s) == Bools{true, true, true, true, false});
  CHECK(is(isin(s, u)) == Bools{false, true, true, true, false});
  CHECK(is(isin(u, s, true)) == Bools{true, false, true, false, true});
  CHECK(is(array({-1, 0}) && array({0ULL, 0ULL})) == Bools{false, false});
  CHECK(is(logical_or(array({0ULL, 1ULL}), array({-1, 0}))) == Bools{true, true});
  CHECK(of(cast(clip(array({5LL, 9LL}), 6, ~0ULL), DType::f32)) == Floats{6, 9});
  CHECK(clip(array({5LL}), 6, ~0ULL).dtype() == DType::i64);
  CHECK(is(s.astype(DType::i8).slice(0, {0, 2}) < u.slice(0, {0, 2})) == Bools{true, false});
}

TEST_CASE("a floating number in max and min; one index in split") {
  CHECK(of(max(arange(3), 0.5)) == Floats{0.5, 1, 2});
  CHECK(of(min(arange(3), 0.5F)) == Floats{0, 0.5, 0.5});
  CHECK(split(arange(4), {1}).size() == 2);
  CHECK(split(arange(4), 4).size() == 4);
  CHECK(of(max(0.5, arange(2))) == Floats{0.5, 1});
  CHECK(of(repeat(arange(2), {2, 1})) == Floats{0, 0, 1});
  CHECK((array<std::uint8_t>({255}) / 256).item<double>() == 255.0 / 256);
}

TEST_CASE("indices and labels are of any integer dtype") {
  for (const DType dtype : {DType::u8, DType::i8, DType::i16, DType::u16, DType::u32, DType::u64}) {
    const NDArray at = array({2, 0}).astype(dtype);
    CHECK(of(take(arange(3), at)) == Floats{2, 0});
    CHECK(of(one_hot(at, 3)) == Floats{0, 0, 1, 1, 0, 0});
    CHECK(of(cross_entropy(zeros({2, 3}), at)) == of(cross_entropy(zeros({2, 3}), array({2, 0}))));
    CHECK(of(embedding(arange(3).view_as({3, 1}), at)) == Floats{2, 0});
  }
}

TEST_CASE("a mask with a side of 0 chooses nothing, as in NumPy") {
  const auto mask = [](Shape shape) { return zeros(shape, DType::boolean); };
  const NDArray x = arange(0, 6).view_as({2, 3});
  for (const Shape& sides : {Shape{0, 3}, Shape{2, 0}, Shape{0, 0}}) {
    const NDArray chosen = x[mask(sides)];
    CHECK(chosen.shape() == Shape{0});
    const NDArray rest = x(kEllipsis, mask(sides));
    CHECK(rest.shape() == Shape{0});
  }
  const NDArray rows = x[mask({0})];
  CHECK(rows.shape() == Shape{0, 3});
  const NDArray columns = x(kAll, mask({0}));
  CHECK(columns.shape() == Shape{2, 0});
  NDArray y = x.copy();
  y[mask({0})] = 5;
  y[mask({2, 0})] = zeros({0});
  CHECK(y.to_vector<float>() == x.to_vector<float>());
  for (const Shape& sides : {Shape{0, 4}, Shape{3}, Shape{2, 3, 0}}) {
    const auto read = [&] { return NDArray(x[mask(sides)]); };
    CHECK_THROWS_AS(read(), InvalidIndex);
  }
  const NDArray none = zeros({0, 3});
  const auto read_none = [&] { return NDArray(none[mask({2, 0})]); };
  CHECK_THROWS_AS(read_none(), InvalidIndex);
}
