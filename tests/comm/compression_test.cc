// Codecs, compared with straightforward implementations.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/compression.h>

using namespace heddle;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const std::size_t kSizes[] = {0, 1, 7, 1024, (1 << 20) + 3};

std::vector<float> normals(std::size_t count, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Encodes the values into exactly encoded_bytes() bytes at an odd address. Returns what they decode to.
std::vector<float> round_trip(const Codec& codec, const std::vector<float>& values) {
  std::vector<std::byte> bytes(codec.encoded_bytes(values.size()) + 1);
  codec.encode(values, std::span(bytes).subspan(1));
  std::vector<float> decoded(values.size(), -77);
  codec.decode(std::span(bytes).subspan(1), decoded);
  return decoded;
}

// The value of a bit pattern in a format with that many exponent and fraction bits.
double value_of(std::uint32_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
  const int exponent = static_cast<int>(bits >> fraction_bits) & top;
  const double fraction = std::ldexp(static_cast<double>(bits & ((1u << fraction_bits) - 1)), -fraction_bits);
  const double sign = bits >> (exponent_bits + fraction_bits) ? -1 : 1;
  if (exponent == top) return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
  return sign * (exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias));
}

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

// Checks that every bit pattern decodes to its value and encodes back. A number between the values of two
// patterns encodes to the nearer one, and at half way to the even one.
template <class To, class From> void check_format(int exponent_bits, int fraction_bits, To to, From from) {
  const auto infinity = static_cast<std::uint16_t>(((1u << exponent_bits) - 1) << fraction_bits);
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = from(half);
    wrong += !same(value, static_cast<float>(value_of(bits, exponent_bits, fraction_bits)));
    wrong += std::isnan(value) ? !std::isnan(from(to(value))) : to(value) != half;
    if ((half & 0x7fff) >= infinity) continue;
    // Above the largest finite number, rounding works as if the next power of two were representable.
    double next = value_of(bits + 1, exponent_bits, fraction_bits);
    if (std::isinf(next)) next = 2.0 * value - value_of(bits - 1, exponent_bits, fraction_bits);
    const float middle = static_cast<float>((value + next) / 2);
    const auto up = static_cast<std::uint16_t>(half + 1), even = half % 2 == 0 ? half : up;
    wrong += to(middle) != even;
    wrong += to(std::nextafter(middle, 0.0f)) != half;
    wrong += to(std::nextafter(middle, middle * kInf)) != up;
  }
  CHECK(wrong == 0);
  CHECK(std::isnan(from(to(kNan))));
  // A NaN whose upper 16 bits are those of -inf.
  CHECK(std::isnan(from(to(std::bit_cast<float>(0xff800001u)))));
  CHECK(to(kInf) == infinity);
  CHECK(to(-0.0f) == 0x8000);
  CHECK(to(std::numeric_limits<float>::max()) == infinity);
  CHECK(to(-std::numeric_limits<float>::max()) == (infinity | 0x8000));
}

}  // namespace

TEST_CASE("fp16 and bf16: every bit pattern, half ways, denormals, inf and NaN") {
  check_format(5, 10, to_fp16, from_fp16);
  check_format(8, 7, to_bf16, from_bf16);
  CHECK(to_fp16(std::numeric_limits<float>::denorm_min()) == 0);
  CHECK(to_fp16(0x1p-25f) == 0);
  CHECK(to_fp16(0x1.000002p-25f) == 1);
}

TEST_CASE("fp16 and bf16 codecs round each value by itself") {
  for (std::size_t size : kSizes) {
    std::vector<float> values = normals(size);
    if (size > 3) values[1] = kInf, values[2] = kNan, values[3] = 1e-6f;
    const std::vector<float> fp16 = round_trip(*make_codec("fp16"), values);
    const std::vector<float> bf16 = round_trip(*make_codec("bf16"), values);
    CHECK(make_codec("fp16")->encoded_bytes(size) == 2 * size);
    CHECK(make_codec("bf16")->encoded_bytes(size) == 2 * size);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < size; ++i) {
      wrong += !same(fp16[i], from_fp16(to_fp16(values[i]))) + !same(bf16[i], from_bf16(to_bf16(values[i])));
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("2bit: the threshold, its negative or 0, and NaN for what is not finite") {
  for (float threshold : {0.5f, 0.3f, 2.0f}) {
    const auto codec = make_codec("2bit:" + std::to_string(threshold));
    for (std::size_t size : kSizes) {
      std::vector<float> values = normals(size);
      if (size > 6) {
        const float special[] = {threshold, -threshold, std::nextafter(threshold, 0.0f), kNan, -kInf, -0.0f};
        std::copy(std::begin(special), std::end(special), values.begin());
      }
      const std::vector<float> decoded = round_trip(*codec, values);
      CHECK(codec->encoded_bytes(size) == (size + 63) / 64 * 16);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < size; ++i) {
        const float v = values[i], kept = v >= threshold ? threshold : v <= -threshold ? -threshold : 0.0f;
        wrong += !same(decoded[i], std::isfinite(v) ? kept : kNan);
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("1bit: the means of those below 0 and of the others of 1,024 values") {
  const auto codec = make_codec("1bit");
  for (std::size_t size : kSizes) {
    const std::vector<float> values = normals(size), decoded = round_trip(*codec, values);
    CHECK(codec->encoded_bytes(size) == (size + 1023) / 1024 * 8 + (size + 127) / 128 * 16);
    std::size_t wrong = 0;
    for (std::size_t begin = 0; begin < size; begin += 1024) {
      const std::size_t end = std::min(size, begin + 1024);
      double sums[2] = {}, counts[2] = {};
      for (std::size_t i = begin; i < end; ++i) {
        sums[values[i] < 0] += values[i];
        ++counts[values[i] < 0];
      }
      for (std::size_t i = begin; i < end; ++i) {
        const double mean = sums[values[i] < 0] / counts[values[i] < 0];
        wrong += !(std::abs(decoded[i] - mean) <= 1e-6 * std::abs(mean));
      }
    }
    CHECK(wrong == 0);
  }
  CHECK(round_trip(*codec, {1, -2, 3, 0, -4, -0.0f, 4}) ==
        std::vector<float>{1.6f, -3, 1.6f, 1.6f, -3, 1.6f, 1.6f});
  const std::vector<float> spoilt = round_trip(*codec, {1, kNan, -3});
  CHECK(std::isnan(spoilt[1]));
  CHECK(spoilt[2] == -3);
}

TEST_CASE("topk: the largest by magnitude, of equals the first") {
  for (double ratio : {0.01, 0.3, 1.0}) {
    const auto codec = make_codec("topk:" + std::to_string(ratio));
    for (std::size_t size : kSizes) {
      std::vector<float> values = normals(size);
      for (float& value : values) value = std::round(value * 8) / 8;  // makes many values equal
      std::vector<std::size_t> order(size);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return std::abs(values[a]) > std::abs(values[b]);
      });
      const auto wanted = static_cast<std::size_t>(std::llround(ratio * static_cast<double>(size)));
      const std::size_t kept = std::min(size, std::max<std::size_t>(1, wanted));
      std::vector<float> expected(size);
      for (std::size_t k = 0; k < kept; ++k) expected[order[k]] = values[order[k]];
      CHECK(codec->encoded_bytes(size) == 8 * kept);
      CHECK(round_trip(*codec, values) == expected);
    }
  }
  const std::vector<float> special = round_trip(*make_codec("topk:0.5"), {9, kNan, 3, -kInf});
  CHECK(special[0] == 0);
  CHECK(std::isnan(special[1]));
  CHECK(special[3] == -kInf);
}

TEST_CASE("topk: an index that leads outside is an error") {
  std::vector<std::byte> bytes(8, std::byte{0xff});
  std::vector<float> values(5);
  CHECK_THROWS_WITH_AS(make_codec("topk:0.1")->decode(bytes, values),
                       doctest::Contains("index 4294967295 of 5"), Error);
}

TEST_CASE("names: what there is, what there is not, and the environment") {
  for (const char* name : {"fp16", "bf16", "1bit", "2bit:0.5", "2bit:0.25", "topk:0.01", "topk:1"}) {
    CHECK(make_codec(name)->name() == name);
  }
  CHECK(make_codec("2bit")->name() == "2bit:0.5");
  CHECK(make_codec("topk")->name() == "topk:0.01");
  CHECK(make_codec("none") == nullptr);
  for (const char* bad : {"", "fp8", "2bit:", "2bit:0", "2bit:-1", "2bit:nan", "2bit:1x", "topk:0",
                          "topk:1.5", "fp16:3", "1bit:"}) {
    CHECK_THROWS_WITH_AS(make_codec(bad), doctest::Contains("there are none, fp16, bf16, 1bit, 2bit"),
                         InvalidArgument);
  }
  REQUIRE(unsetenv("HEDDLE_COMM_COMPRESSION") == 0);
  CHECK(compression_setting("") == "none");
  REQUIRE(setenv("HEDDLE_COMM_COMPRESSION", "fp16", 1) == 0);
  CHECK(compression_setting("") == "fp16");
  CHECK(compression_setting("bf16") == "bf16");
  REQUIRE(unsetenv("HEDDLE_COMM_COMPRESSION") == 0);
}
