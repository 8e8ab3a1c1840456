// fp16 and bf16. Integer arithmetic without branches, which compilers vectorise for any x86-64; _Float16 needs F16C for
// that, and is a call of a library function without.
#include <algorithm>
#include <bit>
#include <cstring>

#include "codecs.h"

namespace heddle {
namespace {

constexpr std::uint32_t kInf = 0x7f800000;

// All cases are computed and one is chosen, so that a loop of it has no branch.
inline std::uint32_t fp16_of(std::uint32_t bits) {
  const std::uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  // The exponent's bias changes from 127 to 15; a carry out of the fraction makes the exponent one more, up to inf.
  const std::uint32_t normal = (size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13;
  // The last bit of a float near 0.5 is worth what the last bit of a small fp16 is: the addition rounds.
  const std::uint32_t small = std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) + 0.5f) - 0x3f000000;
  const std::uint32_t nan = 0x7e00 | (size >> 13 & 0x3ff);
  std::uint32_t result = size < 0x38800000 ? small : normal;
  result = size >= 0x47800000 ? 0x7c00 : result;
  result = size > kInf ? nan : result;
  return sign | result;
}

inline std::uint32_t float_of(std::uint32_t half) {
  const std::uint32_t sign = (half & 0x8000) << 16, size = half & 0x7fff;
  const std::uint32_t normal = (size << 13) + (112u << 23), special = (size << 13) + (224u << 23);
  const std::uint32_t small =
      std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<int>(size)) * 0x1p-24f);
  std::uint32_t result = size < 0x400 ? small : normal;
  result = size >= 0x7c00 ? special : result;
  return sign | result;
}

inline std::uint32_t bf16_of(std::uint32_t bits) {
  const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, nan = bits >> 16 | 0x40;
  return (bits & 0x7fffffff) > kInf ? nan : rounded;
}

// So many at a time lie on the stack: a span of bytes has no alignment, and may be anything as far as compilers know.
constexpr std::size_t kChunk = 64;

struct Fp16 {
  static constexpr const char* kName = "fp16";
  static std::uint32_t encode(std::uint32_t bits) { return fp16_of(bits); }
  static std::uint32_t decode(std::uint32_t half) { return float_of(half); }
};

struct Bf16 {
  static constexpr const char* kName = "bf16";
  static std::uint32_t encode(std::uint32_t bits) { return bf16_of(bits); }
  static std::uint32_t decode(std::uint32_t half) { return half << 16; }
};

template <class Format> class HalfCodec final : public Codec {
 public:
  std::string name() const override { return Format::kName; }
  std::size_t encoded_bytes(std::size_t count) const override { return 2 * count; }

  void encode(std::span<const float> values, std::span<std::byte> bytes) const override {
    std::uint32_t wide[kChunk] = {};
    std::uint16_t half[kChunk];
    for (std::size_t begin = 0; begin < values.size(); begin += kChunk) {
      const std::size_t count = std::min(kChunk, values.size() - begin);
      std::memcpy(wide, values.data() + begin, 4 * count);
      for (std::size_t i = 0; i < kChunk; ++i) half[i] = static_cast<std::uint16_t>(Format::encode(wide[i]));
      std::memcpy(bytes.data() + 2 * begin, half, 2 * count);
    }
  }

  void decode(std::span<const std::byte> bytes, std::span<float> values) const override {
    std::uint32_t wide[kChunk];
    std::uint16_t half[kChunk] = {};
    for (std::size_t begin = 0; begin < values.size(); begin += kChunk) {
      const std::size_t count = std::min(kChunk, values.size() - begin);
      std::memcpy(half, bytes.data() + 2 * begin, 2 * count);
      for (std::size_t i = 0; i < kChunk; ++i) wide[i] = Format::decode(half[i]);
      std::memcpy(values.data() + begin, wide, 4 * count);
    }
  }
};

}  // namespace

std::uint16_t to_fp16(float value) {
  return static_cast<std::uint16_t>(fp16_of(std::bit_cast<std::uint32_t>(value)));
}
float from_fp16(std::uint16_t bits) { return std::bit_cast<float>(float_of(bits)); }
std::uint16_t to_bf16(float value) {
  return static_cast<std::uint16_t>(bf16_of(std::bit_cast<std::uint32_t>(value)));
}
float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

namespace detail {

std::shared_ptr<const Codec> make_fp16() { return std::make_shared<HalfCodec<Fp16>>(); }
std::shared_ptr<const Codec> make_bf16() { return std::make_shared<HalfCodec<Bf16>>(); }

}  // namespace detail
}  // namespace heddle
