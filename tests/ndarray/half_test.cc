#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/half.h>
#include <heddle/ndarray.h>
#include <heddle/npy.h>
#include <heddle/random.h>

using namespace heddle;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// The value of a half's bit pattern by the definition of the format, computed without the code under test.
double worth(unsigned bits, int fraction_bits, int exponent_bits) {
  const int fraction = static_cast<int>(bits & ((1u << fraction_bits) - 1));
  const int exponent = static_cast<int>(bits >> fraction_bits & ((1u << exponent_bits) - 1));
  const int most = (1 << exponent_bits) - 1, bias = most / 2;
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == most) return fraction ? std::nan("") : sign * kInf;
  const double size = exponent == 0
                          ? std::ldexp(fraction, 1 - bias - fraction_bits)
                          : std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
  return sign * size;
}

struct F16Rules {
  using Type = Float16;
  static constexpr DType kDType = DType::f16;
  static constexpr int kFraction = 10, kExponent = 5;
};
struct BF16Rules {
  using Type = BFloat16;
  static constexpr DType kDType = DType::bf16;
  static constexpr int kFraction = 7, kExponent = 8;
};

template <class Rules> double worth_of(unsigned bits) {
  return worth(bits, Rules::kFraction, Rules::kExponent);
}

// The bit pattern of the half nearest to a number, found by a binary search over the finite patterns of the
// number's sign. Ties go to the even pattern. Infinity counts as one step above the largest finite half.
template <class Rules> unsigned nearest(long double value) {
  const unsigned sign = std::signbit(value) ? 0x8000 : 0;
  const long double size = std::abs(value);
  unsigned low = 0, inf = ((1u << Rules::kExponent) - 1) << Rules::kFraction, high = inf;
  const auto at = [&](unsigned bits) -> long double {
    return bits < inf ? worth_of<Rules>(bits) : 2 * worth_of<Rules>(inf - (1u << Rules::kFraction));
  };
  if (size >= at(inf)) return sign | inf;
  while (high - low > 1) {
    const unsigned middle = (low + high) / 2;
    (at(middle) <= size ? low : high) = middle;
  }
  const long double below = size - at(low), above = at(high) - size;
  const bool up = below != above ? above < below : (high & 1) == 0;
  return sign | (up ? high : low);
}

std::vector<unsigned> all_patterns() {
  std::vector<unsigned> all(65536);
  for (unsigned i = 0; i < 65536; ++i) all[i] = i;
  return all;
}

template <class Type> std::vector<Type> ones_of(std::vector<Type> values) {
  for (Type& value : values) value = value == Type(0) ? value : Type(1);
  return values;
}

template <class Type> bool same(Type a, unsigned bits, double value) {
  return std::isnan(value) ? std::isnan(static_cast<double>(a)) : a.bits == bits;
}

}  // namespace

TEST_CASE_TEMPLATE("every pattern is read as what the format says, one by one and many at a time", Rules,
                   F16Rules, BF16Rules) {
  using Type = typename Rules::Type;
  std::vector<Type> halves;
  for (unsigned bits : all_patterns()) halves.push_back(Type::from_bits(static_cast<std::uint16_t>(bits)));
  std::vector<float> wide(halves.size());
  std::vector<Type> back(halves.size());
  widen(halves.data(), wide.data(), wide.size());
  narrow(wide.data(), back.data(), back.size());
  int wrong = 0;
  for (unsigned bits : all_patterns()) {
    const double value = worth_of<Rules>(bits);
    const auto one = static_cast<float>(halves[bits]);
    wrong += std::bit_cast<std::uint32_t>(one) != std::bit_cast<std::uint32_t>(wide[bits]);
    wrong += std::isnan(value) ? !std::isnan(one) : static_cast<double>(one) != value;
    wrong += !same(back[bits], bits, value) || !same(Type(one), bits, value);
    wrong += back[bits].bits != Type(one).bits || std::signbit(one) != (bits >> 15 == 1);
  }
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("numbers between two patterns go to the nearest, half ways to the even one", Rules,
                   F16Rules, BF16Rules) {
  using Type = typename Rules::Type;
  std::vector<double> numbers;
  for (unsigned bits : all_patterns()) {
    const double here = worth_of<Rules>(bits), next = worth_of<Rules>(bits + 1);
    if (!std::isfinite(here)) continue;
    const double middle = std::isfinite(next) ? here / 2 + next / 2 : here * (1 + 0x1p-9);
    for (double x : {middle, std::nextafter(middle, -kInf), std::nextafter(middle, kInf)})
      numbers.push_back(x);
  }
  std::vector<float> floats(numbers.begin(), numbers.end());
  std::vector<Type> many(floats.size());
  narrow(floats.data(), many.data(), many.size());
  int wrong = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    // A conversion from f64 must round only once, not first to f32.
    wrong += Type(numbers[i]).bits != nearest<Rules>(numbers[i]);
    wrong += many[i].bits != nearest<Rules>(static_cast<double>(floats[i])) ||
             many[i].bits != Type(floats[i]).bits;
  }
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("integers are rounded once, large ones too", Rules, F16Rules, BF16Rules) {
  using Type = typename Rules::Type;
  int wrong = 0;
  for (int shift = 0; shift <= 50; ++shift) {
    for (std::int64_t high : {256 + 1, 256 + 3, 2048 + 1, 2048 + 3}) {
      for (std::int64_t low : {-1, 0, 1}) {
        const std::int64_t value = (high << shift) + low;
        wrong += Type(value).bits != nearest<Rules>(static_cast<long double>(value));
        wrong += Type(-value).bits != nearest<Rules>(-static_cast<long double>(value));
      }
    }
  }
  CHECK(wrong == 0);
  CHECK(Type(std::numeric_limits<std::int64_t>::min()).bits == nearest<Rules>(-0x1p63));
  CHECK(Type(std::numeric_limits<std::int64_t>::max()).bits == nearest<Rules>(0x1p63));
  CHECK(Type(std::numeric_limits<std::uint64_t>::max()).bits == nearest<Rules>(0x1p64));
  // 0x8080 << 48 lies halfway between two bf16 numbers; one more must round up.
  CHECK(Type(std::uint64_t{0x8080} << 48).bits == nearest<Rules>(0x1p63));
  CHECK(Type((std::uint64_t{0x8080} << 48) + 1).bits == nearest<Rules>(0x1.02p63));
}

TEST_CASE_TEMPLATE("blocks of every length are converted to their ends and not beyond", Rules, F16Rules,
                   BF16Rules) {
  using Type = typename Rules::Type;
  for (std::size_t count = 0; count < 40; ++count) {
    std::vector<float> from(count), back(count + 1, -7.0f);
    for (std::size_t i = 0; i < count; ++i) from[i] = static_cast<float>(i) + 0.5f;
    std::vector<Type> half(count + 1, Type(-9));
    narrow(from.data(), half.data(), count);
    widen(half.data(), back.data(), count);
    CHECK(half[count] == Type(-9));
    CHECK(back[count] == -7.0f);
    back.pop_back();
    CHECK(back == from);
  }
}

TEST_CASE_TEMPLATE("arrays of halves are made, viewed, filled, cast and copied", Rules, F16Rules, BF16Rules) {
  using Type = typename Rules::Type;
  const DType dtype = Rules::kDType;
  const NDArray counted = arange(0, 6, 1, dtype).view_as({2, 3}), turned = counted.permuted({1, 0}).copy();
  CHECK(size_of(counted.dtype()) == 2);
  CHECK(turned.to_vector<Type>() == std::vector<Type>{Type(0), Type(3), Type(1), Type(4), Type(2), Type(5)});
  for (DType other : kAllDTypes) {
    for (const NDArray& view : std::vector<NDArray>{counted, counted.view_as({3, 2}).permuted({1, 0})}) {
      const std::vector<Type> values = view.to_vector<Type>();
      const NDArray again = view.astype(other).astype(dtype);
      const std::vector<Type> back = again.to_vector<Type>();
      CHECK(back == (other == DType::boolean ? ones_of(values) : values));
    }
  }
  NDArray target = zeros({2, 3}, dtype);
  target.slice(1, {1, 3}).assign(array<double>({1.5, -2.25}));
  CHECK(target.astype(DType::f64).to_vector<double>() == std::vector<double>{0, 1.5, -2.25, 0, 1.5, -2.25});
  CHECK(full({1}, 0.1, dtype).template item<Type>() == Type(0.1));
  CHECK(array<Type>({Type(2)}).template item<Type>() == Type(2));
  CHECK_THROWS_AS(counted.to_vector<float>(), InvalidArgument);
}

TEST_CASE_TEMPLATE("a large strided cast to and from halves is that of each element", Rules, F16Rules,
                   BF16Rules) {
  using Type = typename Rules::Type;
  for (DType from : {DType::f32, DType::f64, DType::i32, DType::i64, DType::f16, DType::bf16}) {
    const NDArray source = arange(-40000, 40000, 1, DType::f64).view_as({400, 200}).astype(from);
    const NDArray view = source.permuted({1, 0}).slice(0, {{}, {}, -3});
    const NDArray wide = view.astype(DType::f64), rounded = view.astype(Rules::kDType);
    const std::vector<double> values = wide.to_vector<double>();
    const std::vector<Type> halves = rounded.to_vector<Type>();
    int wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i) wrong += halves[i].bits != Type(values[i]).bits;
    CHECK(wrong == 0);
  }
}

TEST_CASE("a half that is an integer's saturates, truncates, and NaN is 0") {
  const NDArray wide =
      array<Float16>({Float16(2.9), Float16(-2.9), Float16(300), Float16(-300), Float16(NAN)});
  CHECK(wide.astype(DType::i8).to_vector<std::int8_t>() == std::vector<std::int8_t>{2, -2, 127, -128, 0});
  CHECK(wide.astype(DType::u8).to_vector<std::uint8_t>() == std::vector<std::uint8_t>{2, 0, 255, 0, 0});
  CHECK(wide.astype(DType::boolean).to_vector<bool>() == std::vector<bool>{true, true, true, true, true});
}

TEST_CASE("i8 keeps the low bits of an integer, and has a sign") {
  const NDArray wide = array<std::int32_t>({127, 128, 255, 256, -1, -129});
  const std::vector<std::int8_t> low = {127, -128, -1, 0, -1, 127};
  CHECK(wide.astype(DType::i8).to_vector<std::int8_t>() == low);
  CHECK(wide.astype(DType::u8).astype(DType::i8).to_vector<std::int8_t>() == low);
  CHECK(array<std::int8_t>({-1, 5}).astype(DType::i64).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{-1, 5});
  CHECK(array<std::int8_t>({-1, 5}).astype(DType::u8).to_vector<std::uint8_t>() ==
        std::vector<std::uint8_t>{255, 5});
  CHECK(array<bool>({true, false}).astype(DType::i8).to_vector<std::int8_t>() ==
        std::vector<std::int8_t>{1, 0});
}

TEST_CASE("halves print their own shortest digits") {
  const NDArray wide = array<double>({0.1, 1.0 / 3, -2.5});
  CHECK(wide.astype(DType::f16).to_string() == "[ 0.1     0.3333 -2.5   ]");
  CHECK(wide.astype(DType::bf16).to_string() == "[ 0.1    0.334 -2.5  ]");
  CHECK(full({}, 65504, DType::f16).to_string() == "65500.0");
  CHECK(full({}, 1e6, DType::f16).to_string() == "inf");
  CHECK(array<std::int8_t>({-128, 7}).to_string() == "[-128    7]");
}

TEST_CASE_TEMPLATE("random halves lie in their range", Rules, F16Rules, BF16Rules) {
  using Type = typename Rules::Type;
  Generator generator(7);
  for (const auto& [low, high] : {std::pair(0.0, 1.0), {-0.3, 0.1}, {-1.0, 0.0}, {5.0, 5.0}}) {
    const NDArray drawn = generator.uniform({20000}, low, high, Rules::kDType);
    for (Type value : drawn.to_vector<Type>()) {
      const auto x = static_cast<double>(value);
      if (x < static_cast<double>(Type(low)) || (low < high ? x >= high : x != low)) FAIL_CHECK(x);
    }
  }
  const NDArray normal = generator.normal({1000}, 3, 0.5, Rules::kDType).astype(DType::f64);
  double sum = 0;
  for (double x : normal.to_vector<double>()) sum += x;
  CHECK(sum / 1000 == doctest::Approx(3).epsilon(0.05));
  CHECK_THROWS_AS(generator.uniform({1}, 0, 1e39, Rules::kDType), InvalidArgument);
}

TEST_CASE("npy has no bf16, and says what has") {
  CHECK_THROWS_WITH_AS(save_npy("never_written.npy", zeros({2}, DType::bf16)),
                       doctest::Contains("safetensors"), InvalidArgument);
}
