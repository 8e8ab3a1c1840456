// Conversions of NaN, infinities and out-of-range numbers, from every floating dtype to every dtype, as
// documented in docs/dtypes.md. UBSan's float-cast-overflow checks that no conversion has undefined
// behaviour.
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ndarray.h>

using namespace heddle;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");
const std::vector<double> kWild = {kNan,    -kNan,  kInf, -kInf, 1e300, -1e300, 3e9,  -3e9,   70000,
                                   -70000,  300,    -300, 200,   -200,  127.9,  128,  -128.9, -129,
                                   255.9,   256,    0.9,  -0.9,  -1.5,  0,      -0.0, 1e-300, 9.3e18,
                                   -9.3e18, 1.5e19, 2.5,  3.5,   65519, 65520};

// The conversion of a floating number `x` as documented in docs/dtypes.md, by comparisons only.
template <class To> To expected(double x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != 0;
  } else {
    using Limits = std::numeric_limits<To>;
    if (std::isnan(x)) return 0;
    if (x >= std::ldexp(1.0, Limits::digits)) return Limits::max();
    if (x <= static_cast<double>(Limits::min())) return Limits::min();
    return static_cast<To>(std::trunc(x));
  }
}

template <class To> void check_to(const NDArray& wild) {
  const std::vector<double> values = wild.astype(DType::f64).to_vector<double>();
  const auto got = wild.astype(dtype_of<To>).template to_vector<To>();
  const NDArray assigned = zeros(wild.shape(), dtype_of<To>);
  assigned.assign(wild);
  const auto same = assigned.template to_vector<To>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    CAPTURE(values[i]);
    CHECK(got[i] == expected<To>(values[i]));
    CHECK(same[i] == expected<To>(values[i]));
    CHECK(full({1}, values[i], dtype_of<To>).template item<To>() == expected<To>(values[i]));
  }
}

template <class Half> void check_elements(const std::vector<double>& values) {
  for (double value : values) {
    const Half half(value);
    const auto wide = static_cast<double>(half);
    CHECK(static_cast<std::int32_t>(half) == expected<std::int32_t>(wide));
    CHECK(static_cast<std::int64_t>(half) == expected<std::int64_t>(wide));
    CHECK(static_cast<std::uint8_t>(half) == expected<std::uint8_t>(wide));
    CHECK(static_cast<bool>(half) == expected<bool>(wide));
  }
}

}  // namespace

TEST_CASE("floating numbers become integers that are truncated and saturate, and NaN 0") {
  for (DType source : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    CAPTURE(name_of(source));
    const NDArray wild = array(kWild, {static_cast<std::int64_t>(kWild.size())}).astype(source);
    check_to<std::int32_t>(wild);
    check_to<std::int64_t>(wild);
    check_to<std::uint8_t>(wild);
    check_to<std::int8_t>(wild);
    check_to<std::int16_t>(wild);
    check_to<std::uint16_t>(wild);
    check_to<std::uint32_t>(wild);
    check_to<std::uint64_t>(wild);
    check_to<bool>(wild);
  }
}

TEST_CASE("strided and large arrays are converted in the same way") {
  const NDArray many =
      array(kWild, {static_cast<std::int64_t>(kWild.size())}).broadcast_view({9000, 33}).copy();
  const auto once = many[0].astype(DType::i8).to_vector<std::int8_t>();
  const auto turned = many.permuted({1, 0}).astype(DType::i8);
  for (std::int64_t i : {0, 17, 32})
    CHECK(turned[i][8999].item<std::int8_t>() == once[static_cast<std::size_t>(i)]);
}

TEST_CASE("a half as an integer is truncated and saturates, too") {
  check_elements<Float16>(kWild);
  check_elements<BFloat16>(kWild);
}

TEST_CASE("too large for a narrower floating dtype is inf, too small 0, NaN stays NaN") {
  const NDArray wild = array<double>({1e300, -1e300, 1e-300, kNan, 65519, 65520});
  const auto f32 = wild.astype(DType::f32).to_vector<float>();
  CHECK(f32[0] == std::numeric_limits<float>::infinity());
  CHECK(f32[1] == -std::numeric_limits<float>::infinity());
  CHECK(f32[2] == 0);
  CHECK(std::isnan(f32[3]));
  const auto f16 = wild.astype(DType::f16).astype(DType::f32).to_vector<float>();
  CHECK(f16[4] == 65504);
  CHECK(f16[5] == std::numeric_limits<float>::infinity());
  CHECK(std::isnan(f16[3]));
}

TEST_CASE("fill saturates where astype keeps the low bits of an integer") {
  CHECK(full({1}, 300, DType::u8).item<std::uint8_t>() == 255);
  CHECK(full({1}, -1, DType::u8).item<std::uint8_t>() == 0);
  CHECK(full({1}, 300, DType::i64).astype(DType::u8).item<std::uint8_t>() == 44);
  CHECK(full({1}, -129, DType::i64).astype(DType::i8).item<std::int8_t>() == 127);
}

TEST_CASE("arange converts as astype does") {
  CHECK(arange(254, 258, 1, DType::u8).to_vector<std::uint8_t>() ==
        std::vector<std::uint8_t>{254, 255, 255, 255});
  CHECK(arange(-2, 1, 1, DType::u8).to_vector<std::uint8_t>() == std::vector<std::uint8_t>{0, 0, 0});
}
