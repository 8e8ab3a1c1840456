#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/array_op.h>
#include <heddle/error.h>
#include <heddle/ndarray.h>

#include "message_of.h"

using namespace heddle;
using test::message_of;

namespace {

template <class T> std::vector<T> counting(std::int64_t n) {
  std::vector<T> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), T{0});
  return values;
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("arrays are made full, counting, diagonal and of given values") {
  CHECK(full({2, 2}, 1.5).to_vector<float>() == std::vector<float>{1.5, 1.5, 1.5, 1.5});
  CHECK(ones({2}, DType::i64).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 1});
  CHECK(zeros({2}, DType::boolean).to_vector<bool>() == std::vector<bool>{false, false});
  CHECK(arange(0, 5).to_vector<float>() == std::vector<float>{0, 1, 2, 3, 4});
  CHECK(arange(3, 0, -1, DType::i32).to_vector<std::int32_t>() == std::vector<std::int32_t>{3, 2, 1});
  CHECK(arange(0, 1, 0.25, DType::f64).to_vector<double>() == std::vector<double>{0, 0.25, 0.5, 0.75});
  CHECK(arange(5, 5).shape() == Shape{0});
  CHECK(arange(5, 0).shape() == Shape{0});
  CHECK(eye(2).to_vector<float>() == std::vector<float>{1, 0, 0, 1});
  CHECK(eye(0).shape() == Shape{0, 0});
  CHECK(array<std::uint8_t>({1, 255}).to_vector<std::uint8_t>() == std::vector<std::uint8_t>{1, 255});
  CHECK(array(std::vector<bool>{true, false}, {2, 1}).to_vector<bool>() == std::vector<bool>{true, false});
  CHECK(array(std::vector<double>{7}, {}).item<double>() == 7);
}

TEST_CASE("an i64 is filled with integers that a double does not hold") {
  constexpr std::int64_t kOdd = (std::int64_t{1} << 53) + 1;
  CHECK(full({1}, kOdd, DType::i64).item<std::int64_t>() == kOdd);
  const NDArray x({2}, DType::i64);
  x.fill(-kOdd);
  CHECK(x.to_vector<std::int64_t>() == std::vector<std::int64_t>{-kOdd, -kOdd});
  x.fill(~std::uint64_t{0});
  CHECK(x[0].item<std::int64_t>() == std::numeric_limits<std::int64_t>::max());
  CHECK(full({1}, 300, DType::u8).item<std::uint8_t>() == 255);
}

TEST_CASE("bad creations throw at the call") {
  CHECK_THROWS_AS(array(std::vector<float>{1, 2}, {3}), InvalidArgument);
  CHECK_THROWS_AS(arange(0, 1, 0), InvalidArgument);
  CHECK_THROWS_AS(arange(0, kInfinity), InvalidArgument);
  CHECK_THROWS_AS(arange(std::nan(""), 1), InvalidArgument);
  CHECK_THROWS_AS(zeros({-1}), InvalidArgument);
  CHECK_THROWS_AS(zeros({std::int64_t{1} << 61}), InvalidArgument);  // more than 2^63 bytes
  CHECK_THROWS_AS(eye(-1), InvalidArgument);
}

TEST_CASE("items are read with their own type") {
  CHECK(full({}, 3).item<float>() == 3);
  CHECK(full({1, 1}, 1, DType::boolean).item<bool>());
  CHECK_THROWS_AS(full({}, 3).item<double>(), InvalidArgument);
  CHECK_THROWS_AS(full({2}, 3).item<float>(), InvalidArgument);
  CHECK_THROWS_AS(zeros({0}).item<float>(), InvalidArgument);
  CHECK_THROWS_AS(full({2}, 3).to_vector<std::int32_t>(), InvalidArgument);
}

TEST_CASE("conversion is defined for every value") {
  const NDArray wild =
      array<double>({1.9, -1.9, 300, -300, 1e300, -1e300, kInfinity, -kInfinity, std::nan(""), 0});
  using I32 = std::numeric_limits<std::int32_t>;
  using I64 = std::numeric_limits<std::int64_t>;
  CHECK(wild.astype(DType::i32).to_vector<std::int32_t>() ==
        std::vector<std::int32_t>{1, -1, 300, -300, I32::max(), I32::min(), I32::max(), I32::min(), 0, 0});
  CHECK(wild.astype(DType::i64).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{1, -1, 300, -300, I64::max(), I64::min(), I64::max(), I64::min(), 0, 0});
  CHECK(wild.astype(DType::u8).to_vector<std::uint8_t>() ==
        std::vector<std::uint8_t>{1, 0, 255, 0, 255, 0, 255, 0, 0, 0});
  CHECK(wild.astype(DType::boolean).to_vector<bool>() ==
        std::vector<bool>{true, true, true, true, true, true, true, true, true, false});
  CHECK(std::isinf(wild.astype(DType::f32).to_vector<float>()[4]));
}

TEST_CASE("conversion at the ends of a range") {
  const NDArray ends = array<float>({2147483648.0f, 2147483520.0f, -2147483648.0f, 255.5f, -0.5f});
  CHECK(ends.astype(DType::i32).to_vector<std::int32_t>() ==
        std::vector<std::int32_t>{2147483647, 2147483520, -2147483648, 255, 0});
  CHECK(ends.astype(DType::u8).to_vector<std::uint8_t>() == std::vector<std::uint8_t>{255, 255, 0, 255, 0});
  CHECK(array<double>({2147483646.5, -2147483648.5, 9223372036854774784.0})
            .astype(DType::i32)
            .to_vector<std::int32_t>() == std::vector<std::int32_t>{2147483646, -2147483648, 2147483647});
}

TEST_CASE("integers keep their low bits, bools become 0 and 1") {
  CHECK(array<std::int64_t>({256, -1, (std::int64_t{1} << 32) + 5})
            .astype(DType::u8)
            .to_vector<std::uint8_t>() == std::vector<std::uint8_t>{0, 255, 5});
  CHECK(array<bool>({true, false}).astype(DType::f32).to_vector<float>() == std::vector<float>{1, 0});
  CHECK(array<std::int32_t>({2, 0}).astype(DType::boolean).to_vector<bool>() ==
        std::vector<bool>{true, false});
}

TEST_CASE("copies are apart, contiguous() is not a copy where none is needed") {
  const NDArray a = arange(0, 6).view_as({2, 3});
  const NDArray b = a.copy();
  b.fill(9);
  CHECK(a.to_vector<float>() == std::vector<float>{0, 1, 2, 3, 4, 5});
  CHECK(a.contiguous().storage() == a.storage());
  const NDArray turned = a.permuted({1, 0});
  CHECK_FALSE(turned.is_contiguous());
  CHECK(turned.contiguous().is_contiguous());
  CHECK(turned.contiguous().to_vector<float>() == std::vector<float>{0, 3, 1, 4, 2, 5});
  CHECK(turned.to_vector<float>() == std::vector<float>{0, 3, 1, 4, 2, 5});
}

TEST_CASE("copies go to devices") {
  const NDArray a = arange(0, 3), b = a.copy_to(cpu(1));
  CHECK(b.device() == cpu(1));
  CHECK(a.device() == cpu(0));
  CHECK(zeros_like(b).device() == cpu(1));
  CHECK(b.to_vector<float>() == std::vector<float>{0, 1, 2});
}

TEST_CASE("assignment broadcasts and converts") {
  const NDArray a = zeros({2, 3});
  a.assign(array<std::int32_t>({1, 2, 3}));
  CHECK(a.to_vector<float>() == std::vector<float>{1, 2, 3, 1, 2, 3});
  a.assign(full({}, 7));
  CHECK(a.to_vector<float>() == std::vector<float>(6, 7));
  CHECK_THROWS_WITH_AS(a.assign(zeros({2})),
                       "assign: a source of shape (2,) does not broadcast to a target of shape (2, 3)",
                       InvalidArgument);
  CHECK_THROWS_AS(a.assign(zeros({2, 2, 3})), InvalidArgument);
  CHECK_NOTHROW(a.assign(zeros({1, 2, 3})));  // a leading axis of length 1 of the source is dropped
}

TEST_CASE("overlapping assignment behaves as if the source was copied first") {
  const NDArray a = arange(0, 6);
  a.slice(0, {.begin = 1}).assign(a.slice(0, {.end = 5}));
  CHECK(a.to_vector<float>() == std::vector<float>{0, 0, 1, 2, 3, 4});
  a.assign(a.slice(0, {.step = -1}));
  CHECK(a.to_vector<float>() == std::vector<float>{4, 3, 2, 1, 0, 0});
  a.assign(a[1]);
  CHECK(a.to_vector<float>() == std::vector<float>(6, 3));
  a.assign(a);
  CHECK(a.to_vector<float>() == std::vector<float>(6, 3));
}

TEST_CASE("writing to elements that share memory is refused") {
  CHECK_THROWS_AS(zeros({1}).broadcast_view({4}).fill(1), InvalidArgument);
  CHECK_THROWS_AS(zeros({6}).view({4, 3}, {1, 1}, 0).assign(zeros({3})), InvalidArgument);
  zeros({1}).broadcast_view({1, 1}).fill(1);
}

TEST_CASE("large copies of any layout, on any engine") {
  const std::int64_t n = 700, m = 300;
  for (const EngineOptions& options : {EngineOptions{.scheduler = Scheduler::naive},
                                       EngineOptions{.scheduler = Scheduler::threaded, .workers = 3},
                                       EngineOptions{.scheduler = Scheduler::fuzz, .seed = 5}}) {
    Engine engine(options);
    EngineScope scope(engine);
    const auto values = counting<float>(n * m);
    const NDArray a = array(values, {n, m});
    const auto turned = a.permuted({1, 0}).to_vector<float>();
    const auto backwards = a.slice(0, {.step = -1}).slice(1, {.step = -1}).copy().to_vector<float>();
    const auto wide = a.slice(1, {.begin = 1, .step = 2}).astype(DType::f64).to_vector<double>();
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < n * m; ++i) {
      const auto at = static_cast<std::size_t>(i);
      wrong += turned[at] != static_cast<float>(i % n * m + i / n);
      wrong += backwards[at] != static_cast<float>(n * m - 1 - i);
    }
    for (std::int64_t i = 0; i < n * m / 2; ++i) {
      wrong +=
          wide[static_cast<std::size_t>(i)] != static_cast<double>(i / (m / 2) * m + i % (m / 2) * 2 + 1);
    }
    CHECK(wrong == 0);
    const NDArray target = zeros({n, m, 4}, DType::i32);
    target.permuted({2, 1, 0}).assign(array<std::int32_t>({1, 2, 3, 4}).view_as({4, 1, 1}));
    const auto filled = target.to_vector<std::int32_t>();
    for (std::size_t i = 0; i < filled.size(); ++i)
      wrong += filled[i] != static_cast<std::int32_t>(i % 4 + 1);
    CHECK(wrong == 0);
  }
}

TEST_CASE("arrays without elements") {
  const NDArray a = zeros({0, 3});
  CHECK(a.size() == 0);
  CHECK(a.is_contiguous());
  CHECK(a.to_vector<float>().empty());
  CHECK(a.copy().shape() == Shape{0, 3});
  a.assign(full({3}, 1));
  a.fill(2);
  a.wait();
  CHECK(a.view_as({3, 0, 7}).shape() == Shape{3, 0, 7});
}

TEST_CASE("eight dimensions, most of them strided") {
  const NDArray a = arange(0, 256, 1, DType::i32).view_as({2, 2, 2, 2, 2, 2, 2, 2});
  const auto values = a.permuted({7, 0, 6, 1, 5, 2, 4, 3}).slice(3, {.step = -1}).to_vector<std::int32_t>();
  const int place[] = {0, 7, 1, 6, 2, 5, 3, 4};  // for each axis, which bit of the value its index is
  for (int i = 0; i < 256; ++i) {
    int expected = 0;
    for (int axis = 0; axis < 8; ++axis) {
      const int bit = (i >> (7 - axis) & 1) ^ (axis == 3);
      expected |= bit << place[axis];
    }
    CHECK(values[static_cast<std::size_t>(i)] == expected);
  }
}

TEST_CASE("arrays whose engine is destroyed can be read, and are refused by what needs an engine") {
  NDArray values, failed;
  {
    Engine engine({.workers = 2});
    const EngineScope scope(engine);
    values = arange(0, 6, 1, DType::i32).view_as({2, 3});
    failed = zeros({2});
    array_push("fail", {}, {failed}, [] { throw Error("it failed"); });
  }
  values.wait();
  const NDArray reversed = values[1].slice(0, {.step = -1});
  CHECK(reversed.to_vector<std::int32_t>() == std::vector<std::int32_t>{5, 4, 3});
  CHECK(values(1, 0).item<std::int32_t>() == 3);
  CHECK(values.to_string() == "[[0 1 2]\n [3 4 5]]");
  CHECK_THROWS_WITH_AS(failed.to_vector<float>(), "it failed", Error);
  CHECK_THROWS_WITH_AS(failed.wait(), "it failed", Error);
  const char* const kGone =
      "an array whose engine is destroyed: its values can be read, and no op can have it any more";
  CHECK_THROWS_WITH_AS(values.fill(1), kGone, Error);
  CHECK_THROWS_WITH_AS(values.copy(), kGone, Error);
  CHECK_THROWS_WITH_AS(values.engine(), kGone, Error);
  CHECK_THROWS_WITH_AS(zeros({2, 3}, DType::i32).assign(values), kGone, Error);
}

TEST_CASE("the value of one element converts itself, with all its digits") {
  const NDArray x = arange(6).view_as({2, 3});
  const float single = x(1, 2).item();
  const double wide = x[0][1].item();
  const int whole = array(2.75).item();
  CHECK((single == 5 && wide == 1 && whole == 2));
  const std::uint64_t large = array(std::vector<std::uint64_t>{~std::uint64_t{0}}, {}).item();
  const std::int64_t small = full({}, std::int64_t{-9007199254740993}, DType::i64).item();
  CHECK(large == ~std::uint64_t{0});
  CHECK(small == -9007199254740993);
  const bool yes = array(true).item();
  CHECK(yes);
  CHECK(static_cast<float>(zeros({}, DType::f16).item()) == 0);
  std::ostringstream out;
  out << array(1.5).item() << " " << array<std::int64_t>({7}).item() << " " << array(true).item();
  CHECK(out.str() == "1.5 7 1");
  CHECK(message_of<InvalidArgument>([&] { x.item(); }) ==
        "item: wants an array with one element, not of shape (2, 3)");
  NDArray copy = zeros({1}, DType::u64);
  copy.fill(array(std::vector<std::uint64_t>{~std::uint64_t{0}}, {}).item());
  CHECK(copy.item<std::uint64_t>() == large);
}

TEST_CASE("an array of one element is true if the element is not 0") {
  for (const DType dtype : kAllDTypes) {
    CAPTURE(dtype);
    CHECK_FALSE(static_cast<bool>(zeros({}, dtype)));
    CHECK(static_cast<bool>(ones({1, 1}, dtype)));
  }
  CHECK(static_cast<bool>(full({}, std::nan(""))));
  CHECK(static_cast<bool>(full({}, std::nan(""), DType::bf16)));
  CHECK(static_cast<bool>(full({}, 0.25)));
  CHECK(message_of<InvalidArgument>([] {
          (void)static_cast<bool>(zeros({2, 1}));
        }) == "operator bool: an array of shape (2, 1) is neither true nor false; say any() or all()");
  CHECK_THROWS_AS((void)static_cast<bool>(zeros({0})), InvalidArgument);
  const NDArray failed = zeros({1});
  array_push("fail", {}, {failed}, [] { throw Error("it failed"); });
  CHECK_THROWS_WITH_AS((void)static_cast<bool>(failed), "it failed", Error);
}

TEST_CASE("sizes need no braces, and the size of an axis can be asked") {
  const NDArray x = zeros(2, 3), y = ones(4, std::int64_t{1}, 2);
  CHECK(x.shape() == Shape{2, 3});
  CHECK(x.to_vector<float>() == std::vector<float>(6, 0));
  CHECK(y.shape() == Shape{4, 1, 2});
  CHECK(y.to_vector<float>() == std::vector<float>(8, 1));
  CHECK(zeros(3).shape() == Shape{3});
  CHECK(x.size(0) == 2);
  CHECK(x.size(-1) == 3);
  CHECK(message_of<InvalidArgument>([&] { x.size(2); }).starts_with("size: "));
  CHECK(x.view({3, -1}).shape() == Shape{3, 2});
  CHECK(message_of<InvalidArgument>([] { zeros(2, -1); }).starts_with("zeros: "));
}
