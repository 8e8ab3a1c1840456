#include <cstdint>
#include <limits>
#include <sstream>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/device.h>
#include <heddle/dtype.h>
#include <heddle/error.h>
#include <heddle/shape.h>

using namespace heddle;

namespace {
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
}

TEST_CASE("dims hold up to eight numbers") {
  CHECK(Dims{}.to_string() == "()");
  CHECK(Dims{2}.to_string() == "(2,)");
  CHECK(Dims{2, 3}.to_string() == "(2, 3)");
  CHECK(Dims{2, 3} == Dims(std::vector<std::int64_t>{2, 3}));
  CHECK_FALSE(Dims{2, 3} == Dims{2, 3, 1});
  CHECK_THROWS_AS((Dims{1, 1, 1, 1, 1, 1, 1, 1, 1}), InvalidArgument);
  Dims eight = Dims::filled(8, 1);
  CHECK_THROWS_AS(eight.push_back(1), InvalidArgument);
  std::ostringstream out;
  out << Shape{4, 5};
  CHECK(out.str() == "(4, 5)");
}

TEST_CASE("element counts are checked") {
  CHECK(element_count({}) == 1);
  CHECK(element_count({2, 3, 4}) == 24);
  CHECK(element_count({2, 0, 4}) == 0);
  CHECK(element_count({kMost}) == kMost);
  CHECK_THROWS_AS(element_count({kMost, 2}), InvalidArgument);
  CHECK_THROWS_AS(element_count({0, kMost, 2}), InvalidArgument);
  CHECK_THROWS_AS(element_count({std::int64_t{1} << 32, std::int64_t{1} << 32}), InvalidArgument);
  CHECK_THROWS_AS(element_count({-1}), InvalidArgument);
}

TEST_CASE("contiguous strides are row-major") {
  CHECK(contiguous_strides({}) == Strides{});
  CHECK(contiguous_strides({2, 3, 4}) == Strides{12, 4, 1});
  CHECK(contiguous_strides({5, 0, 2}) == Strides{2, 2, 1});
}

TEST_CASE("shapes broadcast as NumPy's") {
  CHECK(broadcast_shapes({2, 3}, {3}) == Shape{2, 3});
  CHECK(broadcast_shapes({2, 1}, {1, 3}) == Shape{2, 3});
  CHECK(broadcast_shapes({}, {4, 5}) == Shape{4, 5});
  CHECK(broadcast_shapes({1}, {0}) == Shape{0});
  CHECK(broadcast_shapes({0, 1}, {1, 7}) == Shape{0, 7});
  CHECK_THROWS_WITH_AS(broadcast_shapes({2, 3}, {4, 5}),
                       "broadcast_shapes: shapes (2, 3) and (4, 5) do not broadcast together",
                       InvalidArgument);
  CHECK_THROWS_AS(broadcast_shapes({0}, {2}), InvalidArgument);
}

TEST_CASE("axes count from both ends") {
  CHECK(normalize_axis(0, 2) == 0);
  CHECK(normalize_axis(-1, 2) == 1);
  CHECK(normalize_axis(-2, 2) == 0);
  CHECK_THROWS_AS(normalize_axis(2, 2), InvalidArgument);
  CHECK_THROWS_AS(normalize_axis(-3, 2), InvalidArgument);
  CHECK_THROWS_AS(normalize_axis(0, 0), InvalidArgument);
}

TEST_CASE("every dtype has a size and a name") {
  const std::vector<DType> all(std::begin(kAllDTypes), std::end(kAllDTypes));
  const std::vector<std::size_t> sizes = {4, 8, 4, 8, 1, 1, 2, 2, 1, 2, 2, 4, 8};
  REQUIRE(all.size() == sizes.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(static_cast<std::size_t>(all[i]) == i);
    CHECK(size_of(all[i]) == sizes[i]);
    CHECK(dtype_from_name(name_of(all[i])) == all[i]);
    CHECK(visit_dtype(all[i], []<class T>() { return dtype_of<T>; }) == all[i]);
  }
  CHECK_THROWS_WITH_AS(dtype_from_name("f8"),
                       "no dtype is called \"f8\"; there are f32, f64, i32, i64, u8, bool, f16, bf16, i8, "
                       "i16, u16, u32, u64",
                       InvalidArgument);
  CHECK_THROWS_AS(visit_number(DType::bf16, []<class T>() { return sizeof(T); }), InvalidArgument);
  CHECK(is_floating(DType::f64));
  CHECK(is_floating(DType::bf16));
  CHECK_FALSE(is_floating(DType::i64));
}

TEST_CASE("promotion is NumPy's") {
  CHECK(promote(DType::boolean, DType::u8) == DType::u8);
  CHECK(promote(DType::u8, DType::i32) == DType::i32);
  CHECK(promote(DType::u8, DType::f32) == DType::f32);
  CHECK(promote(DType::i32, DType::f32) == DType::f64);
  CHECK(promote(DType::f32, DType::i64) == DType::f64);
  CHECK(promote(DType::f32, DType::f64) == DType::f64);
  CHECK(promote(DType::i64, DType::i32) == DType::i64);
  CHECK(promote(DType::f32, DType::boolean) == DType::f32);
  CHECK(promote(DType::i8, DType::i32) == DType::i32);
  CHECK(promote(DType::i8, DType::boolean) == DType::i8);
  CHECK(promote(DType::u8, DType::i8) == DType::i16);
  CHECK(promote(DType::i16, DType::u16) == DType::i32);
  CHECK(promote(DType::u32, DType::i8) == DType::i64);
  CHECK(promote(DType::u64, DType::i64) == DType::f64);
  CHECK(promote(DType::f16, DType::i8) == DType::f16);
  CHECK(promote(DType::u8, DType::f16) == DType::f16);
  CHECK(promote(DType::f16, DType::i32) == DType::f64);
  CHECK(promote(DType::f16, DType::f32) == DType::f32);
  CHECK(promote(DType::f64, DType::f16) == DType::f64);
}

TEST_CASE("bf16 is promoted as by JAX and PyTorch") {
  for (DType integer :
       {DType::boolean, DType::u8, DType::i8, DType::i16, DType::i32, DType::i64, DType::u64}) {
    CHECK(promote(DType::bf16, integer) == DType::bf16);
    CHECK(promote(integer, DType::bf16) == DType::bf16);
  }
  CHECK(promote(DType::bf16, DType::f16) == DType::f32);
  CHECK(promote(DType::bf16, DType::f32) == DType::f32);
  CHECK(promote(DType::bf16, DType::f64) == DType::f64);
}

TEST_CASE("devices have names") {
  CHECK(cpu().to_string() == "cpu(0)");
  CHECK(cpu(3).to_string() == "cpu(3)");
  CHECK(cpu(1) == cpu(1));
  CHECK_FALSE(cpu(1) == cpu(2));
  CHECK_THROWS_AS(cpu(-1), InvalidArgument);
}
