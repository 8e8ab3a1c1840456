#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ndarray.h>

using namespace heddle;

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

std::vector<std::int64_t> sliced(Slice range, std::int64_t n = 5) {
  return arange(0, static_cast<double>(n), 1, DType::i64).slice(0, range).to_vector<std::int64_t>();
}
using Values = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("slices have Python's meaning") {
  CHECK(sliced({}) == Values{0, 1, 2, 3, 4});
  CHECK(sliced({.begin = 1, .end = 3}) == Values{1, 2});
  CHECK(sliced({.begin = -2}) == Values{3, 4});
  CHECK(sliced({.end = -1}) == Values{0, 1, 2, 3});
  CHECK(sliced({.step = -1}) == Values{4, 3, 2, 1, 0});
  CHECK(sliced({.begin = 3, .end = 0, .step = -2}) == Values{3, 1});
  CHECK(sliced({.begin = 1, .step = 3}) == Values{1, 4});
  CHECK(sliced({.begin = 7}).empty());
  CHECK(sliced({.begin = 3, .end = 1}).empty());
  CHECK(sliced({.begin = -100, .end = 100}) == Values{0, 1, 2, 3, 4});
  CHECK(sliced({.begin = 100, .end = -100, .step = -3}) == Values{4, 1});
  CHECK(sliced({.end = 2, .step = -1}) == Values{4, 3});
  CHECK(sliced({.step = kMost}) == Values{0});
  CHECK(sliced({.step = kLeast}) == Values{4});
  CHECK(sliced({.begin = kLeast, .end = kMost}) == Values{0, 1, 2, 3, 4});
  CHECK(sliced({.begin = kMost, .end = kLeast, .step = -1}) == Values{4, 3, 2, 1, 0});
  CHECK(sliced({.step = -1}, 0).empty());
  CHECK_THROWS_AS(sliced({.step = 0}), InvalidArgument);
  CHECK_THROWS_AS(zeros({2}).slice(1, {}), InvalidArgument);
}

TEST_CASE("views share memory") {
  const NDArray a = zeros({2, 3});
  a[1].fill(5);
  a.slice(1, {.begin = 2})[0].fill(7);
  CHECK(a.to_vector<float>() == std::vector<float>{0, 0, 7, 5, 5, 5});
  CHECK(a[0].storage() == a.storage());
  CHECK(a[0].var() == a.var());
  CHECK(a[-1].offset() == 3);
}

TEST_CASE("an index drops the first axis and is checked") {
  const NDArray a = zeros({2, 3});
  CHECK(a[0].shape() == Shape{3});
  CHECK(a[0][0].shape() == Shape{});
  CHECK_THROWS_AS(a[2], InvalidArgument);
  CHECK_THROWS_AS(a[-3], InvalidArgument);
  CHECK_THROWS_AS(zeros({})[0], InvalidArgument);
  CHECK_THROWS_AS(zeros({0})[0], InvalidArgument);
}

TEST_CASE("reshaped views of contiguous arrays") {
  const NDArray a = arange(0, 12);
  CHECK(a.view_as({3, 4}).shape() == Shape{3, 4});
  CHECK(a.view_as({-1, 6}).shape() == Shape{2, 6});
  CHECK(a.view_as({2, -1, 3}).shape() == Shape{2, 2, 3});
  CHECK_THROWS_AS(a.view_as({5, -1}), InvalidArgument);
  CHECK_THROWS_AS(a.view_as({-1, -1}), InvalidArgument);
  CHECK_THROWS_AS(a.view_as({-2, 6}), InvalidArgument);
  CHECK_THROWS_AS(a.view_as({11}), InvalidArgument);
  CHECK_THROWS_AS(zeros({0}).view_as({0, -1}), InvalidArgument);
  CHECK_THROWS_AS(a.view_as({3, 4}).permuted({1, 0}).view_as({12}), InvalidArgument);
  CHECK(a.slice(0, {.begin = 2, .end = 8}).view_as({2, 3}).to_vector<float>() ==
        std::vector<float>{2, 3, 4, 5, 6, 7});
  CHECK(full({}, 4).view_as({1, 1}).shape() == Shape{1, 1});
}

TEST_CASE("permutations of axes") {
  const NDArray a = zeros({2, 3, 4});
  CHECK(a.permuted({2, 0, 1}).shape() == Shape{4, 2, 3});
  CHECK(a.permuted({-1, 0, 1}).strides() == Strides{1, 12, 4});
  CHECK_THROWS_AS(a.permuted({0, 1}), InvalidArgument);
  CHECK_THROWS_AS(a.permuted({0, 1, 1}), InvalidArgument);
  CHECK_THROWS_AS(a.permuted({0, 1, 3}), InvalidArgument);
}

TEST_CASE("broadcast views") {
  const NDArray a = arange(0, 3).view_as({3, 1});
  const NDArray wide = a.broadcast_view({2, 3, 2});
  CHECK(wide.strides() == Strides{0, 1, 0});
  CHECK(wide.to_vector<float>() == std::vector<float>{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2});
  CHECK(zeros({1}).broadcast_view({0}).shape() == Shape{0});
  CHECK_THROWS_WITH_AS(a.broadcast_view({3}), "broadcast_view: (3, 1) does not broadcast to (3,)",
                       InvalidArgument);
  CHECK_THROWS_AS(a.broadcast_view({2, 1}), InvalidArgument);
  CHECK_THROWS_AS(a.broadcast_view({3, -1}), InvalidArgument);
  CHECK_THROWS_AS(zeros({1}).broadcast_view({kMost, 2}), InvalidArgument);
}

TEST_CASE("views by strides stay inside the storage") {
  const NDArray a = arange(0, 10);
  CHECK(a.view({3, 2}, {3, -1}, 1).to_vector<float>() == std::vector<float>{1, 0, 4, 3, 7, 6});
  CHECK(a.view({0}, {5}, 10).shape() == Shape{0});
  CHECK_THROWS_AS(a.view({11}, {1}, 0), InvalidArgument);
  CHECK_THROWS_AS(a.view({10}, {1}, 1), InvalidArgument);
  CHECK_THROWS_AS(a.view({2}, {-1}, 0), InvalidArgument);
  CHECK_THROWS_AS(a.view({}, {}, 10), InvalidArgument);
  CHECK_THROWS_AS(a.view({}, {}, -1), InvalidArgument);
  CHECK_THROWS_AS(a.view({2}, {1, 1}, 0), InvalidArgument);
  CHECK_THROWS_AS(a.view({3}, {kMost}, 0), InvalidArgument);
  CHECK_THROWS_AS(a.view({3, 3}, {kMost / 2, kMost / 2}, 5), InvalidArgument);
  CHECK_THROWS_AS(a.view({3}, {kLeast}, 0), InvalidArgument);
}

TEST_CASE("contiguity") {
  const NDArray a = zeros({4, 3});
  CHECK(a.is_contiguous());
  CHECK(a.slice(0, {.begin = 1}).is_contiguous());
  CHECK_FALSE(a.slice(1, {.begin = 1}).is_contiguous());
  CHECK(a.slice(0, {.begin = 1, .end = 2}).slice(1, {.begin = 1}).is_contiguous());
  CHECK_FALSE(a.slice(0, {.step = 2}).is_contiguous());
  CHECK(zeros({}).is_contiguous());
  CHECK(zeros({3, 0}).permuted({1, 0}).is_contiguous());
}
