// The codecs 1bit and 2bit.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "compression/codecs.h"

namespace heddle::comm_detail {
namespace {

// Packs codes of kBits bits in groups of 16 bytes. Byte b holds the codes of the values b, b + 16, b + 32 ... of its
// group, so that vectors of 16 codes are packed without shuffling. The last group is padded with zeros.
template <int kBits> struct Packed {
  static constexpr std::size_t kBytes = 16, kPlanes = 8 / kBits, kGroup = kBytes * kPlanes;

  static std::size_t bytes(std::size_t count) { return (count + kGroup - 1) / kGroup * kBytes; }

  template <class CodeOf> static void pack(std::span<const float> values, std::byte* to, CodeOf code_of) {
    float from[kGroup] = {};
    std::uint8_t codes[kGroup], packed[kBytes];
    for (std::size_t begin = 0; begin < values.size(); begin += kGroup, to += kBytes) {
      const std::size_t count = std::min(kGroup, values.size() - begin);
      if (count < kGroup) std::fill_n(from, kGroup, 0.0f);
      std::memcpy(from, values.data() + begin, 4 * count);
      for (std::size_t i = 0; i < kGroup; ++i) codes[i] = static_cast<std::uint8_t>(code_of(from[i]));
      for (std::size_t b = 0; b < kBytes; ++b) packed[b] = codes[b];
      for (std::size_t plane = 1; plane < kPlanes; ++plane) {
        for (std::size_t b = 0; b < kBytes; ++b) {
          packed[b] = static_cast<std::uint8_t>(packed[b] | codes[plane * kBytes + b] << (plane * kBits));
        }
      }
      std::memcpy(to, packed, kBytes);
    }
  }

  template <class ValueOf>
  static void unpack(const std::byte* from, std::span<float> values, ValueOf value_of) {
    float to[kGroup];
    std::uint8_t packed[kBytes];
    for (std::size_t begin = 0; begin < values.size(); begin += kGroup, from += kBytes) {
      std::memcpy(packed, from, kBytes);
      for (std::size_t plane = 0; plane < kPlanes; ++plane) {
        for (std::size_t b = 0; b < kBytes; ++b) {
          const std::uint32_t code = packed[b] >> (plane * kBits) & ((1u << kBits) - 1);
          to[plane * kBytes + b] = value_of(code);
        }
      }
      std::memcpy(values.data() + begin, to, 4 * std::min(kGroup, values.size() - begin));
    }
  }
};

// The codes mean 0, threshold and -threshold; the fourth one is for values that are not finite.
class TwoBit final : public Codec {
 public:
  explicit TwoBit(float threshold) : threshold_(threshold) {}
  std::string name() const override { return "2bit:" + shortest(threshold_); }
  std::size_t encoded_bytes(std::size_t count) const override { return Packed<2>::bytes(count); }

  // A sum is up to `ranks` thresholds. With a codec of one threshold the residual would grow from call to call.
  std::shared_ptr<const Codec> for_sums(int ranks) const override {
    return make_two_bit(threshold_ * static_cast<float>(ranks));
  }

  void encode(std::span<const float> values, std::span<std::byte> bytes) const override {
    Packed<2>::pack(values, bytes.data(), [t = threshold_](float value) {
      const std::uint32_t size = std::bit_cast<std::uint32_t>(value) & 0x7fffffff;
      const std::uint32_t sign = std::bit_cast<std::uint32_t>(value) >> 31;
      // Floats of the same sign are ordered like their bits.
      const std::uint32_t code = size >= std::bit_cast<std::uint32_t>(t) ? 1 + sign : 0;
      return size >= 0x7f800000 ? 3 : code;
    });
  }

  void decode(std::span<const std::byte> bytes, std::span<float> values) const override {
    Packed<2>::unpack(bytes.data(), values, [t = threshold_](std::uint32_t code) {
      const float finite = code == 1 ? t : code == 2 ? -t : 0.0f;
      return code == 3 ? std::numeric_limits<float>::quiet_NaN() : finite;
    });
  }

 private:
  float threshold_;
};

// The encoding: the two means of each block, then a bit for each value, 1 if it is below 0.
class OneBit final : public Codec {
 public:
  std::string name() const override { return "1bit"; }
  std::size_t encoded_bytes(std::size_t count) const override {
    return means(count) + Packed<1>::bytes(count);
  }

  void encode(std::span<const float> values, std::span<std::byte> bytes) const override {
    for (std::size_t block = 0; block * kBlock < values.size(); ++block) {
      const auto two = means_of(block_of(values, block));
      std::memcpy(bytes.data() + block * sizeof two, &two, sizeof two);
    }
    Packed<1>::pack(values, bytes.data() + means(values.size()),
                    [](float value) { return value < 0 ? 1u : 0u; });
  }

  void decode(std::span<const std::byte> bytes, std::span<float> values) const override {
    const std::byte* bits = bytes.data() + means(values.size());
    for (std::size_t block = 0; block * kBlock < values.size(); ++block, bits += Packed<1>::bytes(kBlock)) {
      std::array<float, 2> two;
      std::memcpy(&two, bytes.data() + block * sizeof two, sizeof two);
      Packed<1>::unpack(bits, block_of(values, block),
                        [two](std::uint32_t code) { return code ? two[1] : two[0]; });
    }
  }

 private:
  static constexpr std::size_t kBlock = 1024, kLanes = 16;

  static std::size_t means(std::size_t count) { return (count + kBlock - 1) / kBlock * 2 * sizeof(float); }
  template <class T> static std::span<T> block_of(std::span<T> values, std::size_t block) {
    return values.subspan(block * kBlock, std::min(kBlock, values.size() - block * kBlock));
  }

  // The mean of the values that are not below 0, and of those that are. Summed in lanes, so that the compiler can
  // vectorise the additions without changing their order.
  static std::array<float, 2> means_of(std::span<const float> block) {
    float above[kLanes] = {}, below[kLanes] = {};
    std::int32_t negative[kLanes] = {};
    // The function has no branches, because a branch on a gradient's sign is mispredicted half of the time.
    const auto add = [&](std::size_t lane, float value) {
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
      const std::uint32_t mask = -static_cast<std::uint32_t>(value < 0);
      above[lane] += std::bit_cast<float>(bits & ~mask);
      below[lane] += std::bit_cast<float>(bits & mask);
      negative[lane] -= static_cast<std::int32_t>(mask);
    };
    const std::size_t even = block.size() / kLanes * kLanes;
    for (std::size_t i = 0; i < even; i += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) add(lane, block[i + lane]);
    }
    for (std::size_t i = even; i < block.size(); ++i) add(i - even, block[i]);
    float positive_sum = 0, negative_sum = 0;
    std::int32_t negatives = 0;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      positive_sum += above[lane];
      negative_sum += below[lane];
      negatives += negative[lane];
    }
    const std::int32_t others = static_cast<std::int32_t>(block.size()) - negatives;
    return {positive_sum / static_cast<float>(std::max(others, 1)),
            negative_sum / static_cast<float>(std::max(negatives, 1))};
  }
};

}  // namespace

std::shared_ptr<const Codec> make_one_bit() { return std::make_shared<OneBit>(); }
std::shared_ptr<const Codec> make_two_bit(float threshold) { return std::make_shared<TwoBit>(threshold); }

}  // namespace heddle::comm_detail
