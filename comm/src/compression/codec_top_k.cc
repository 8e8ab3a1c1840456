// The codec topk: the values with the largest magnitudes, as pairs of an index and a value, ordered by index.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>

#include "compression/codecs.h"

namespace heddle::comm_detail {
namespace {

struct Pair {
  std::uint32_t index;
  float value;
};

// Magnitudes are ordered like their bits: inf above all numbers, and NaN above inf.
std::uint32_t magnitude(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7fffffff; }

class TopK final : public Codec {
 public:
  explicit TopK(double ratio) : ratio_(ratio) {}
  std::string name() const override { return "topk:" + shortest(ratio_); }
  std::size_t encoded_bytes(std::size_t count) const override { return kept(count) * sizeof(Pair); }

  // Keeps the values above the smallest kept magnitude, `limit`, and the first ones of the values that have
  // this magnitude.
  void encode(std::span<const float> values, std::span<std::byte> bytes) const override {
    const std::size_t count = kept(values.size());
    if (count == 0) return;
    const std::uint32_t limit = limit_of(values, count);
    const auto above = [&](float value) { return magnitude(value) > limit; };
    std::size_t equal = count - static_cast<std::size_t>(std::count_if(values.begin(), values.end(), above));
    std::byte* to = bytes.data();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint32_t size = magnitude(values[i]);
      if (size < limit || (size == limit && equal == 0)) continue;
      if (size == limit) --equal;
      const Pair pair{static_cast<std::uint32_t>(i), values[i]};
      std::memcpy(to, &pair, sizeof pair);
      to += sizeof pair;
    }
  }

  void decode(std::span<const std::byte> bytes, std::span<float> values) const override {
    std::fill(values.begin(), values.end(), 0.0f);
    for (std::size_t k = 0; k < kept(values.size()); ++k) {
      Pair pair;
      std::memcpy(&pair, bytes.data() + k * sizeof pair, sizeof pair);
      if (pair.index >= values.size()) {
        throw Error("topk: index " + std::to_string(pair.index) + " of " + std::to_string(values.size()) +
                    " values: what came is not what was encoded");
      }
      values[pair.index] = pair.value;
    }
  }

 private:
  std::size_t kept(std::size_t count) const {
    const auto part = static_cast<std::size_t>(std::llround(ratio_ * static_cast<double>(count)));
    return std::min(count, std::max<std::size_t>(part, 1));
  }

  static std::uint32_t limit_of(std::span<const float> values, std::size_t count) {
    std::vector<std::uint32_t> sizes(values.size());
    std::transform(values.begin(), values.end(), sizes.begin(), magnitude);
    const auto last = sizes.begin() + static_cast<std::ptrdiff_t>(count - 1);
    std::nth_element(sizes.begin(), last, sizes.end(), std::greater<>());
    return *last;
  }

  double ratio_;
};

}  // namespace

std::shared_ptr<const Codec> make_top_k(double ratio) { return std::make_shared<TopK>(ratio); }

}  // namespace heddle::comm_detail
