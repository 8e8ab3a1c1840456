// The codecs fp16 and bf16, which use ndarray's conversions.
#include <algorithm>
#include <cstring>

#include <heddle/half.h>

#include "compression/codecs.h"

namespace heddle {
namespace {

// Values converted at a time, in an aligned buffer on the stack, because a span of bytes is not aligned.
constexpr std::size_t kChunk = 1024;

template <class Half> class HalfCodec final : public Codec {
 public:
  explicit HalfCodec(const char* name) : name_(name) {}
  std::string name() const override { return name_; }
  std::size_t encoded_bytes(std::size_t count) const override { return sizeof(Half) * count; }

  void encode(std::span<const float> values, std::span<std::byte> bytes) const override {
    Half half[kChunk];
    for (std::size_t begin = 0; begin < values.size(); begin += kChunk) {
      const std::size_t count = std::min(kChunk, values.size() - begin);
      narrow(values.data() + begin, half, count);
      std::memcpy(bytes.data() + sizeof(Half) * begin, half, sizeof(Half) * count);
    }
  }

  void decode(std::span<const std::byte> bytes, std::span<float> values) const override {
    Half half[kChunk];
    for (std::size_t begin = 0; begin < values.size(); begin += kChunk) {
      const std::size_t count = std::min(kChunk, values.size() - begin);
      std::memcpy(half, bytes.data() + sizeof(Half) * begin, sizeof(Half) * count);
      widen(half, values.data() + begin, count);
    }
  }

 private:
  const char* name_;
};

}  // namespace

std::uint16_t to_fp16(float value) { return Float16(value).bits; }
float from_fp16(std::uint16_t bits) { return static_cast<float>(Float16::from_bits(bits)); }
std::uint16_t to_bf16(float value) { return BFloat16(value).bits; }
float from_bf16(std::uint16_t bits) { return static_cast<float>(BFloat16::from_bits(bits)); }

namespace comm_detail {

std::shared_ptr<const Codec> make_fp16() { return std::make_shared<HalfCodec<Float16>>("fp16"); }
std::shared_ptr<const Codec> make_bf16() { return std::make_shared<HalfCodec<BFloat16>>("bf16"); }

}  // namespace comm_detail
}  // namespace heddle
