#include "families/conv/cpu/channel_blocks.h"

#include <algorithm>

#include <heddle/half.h>

#include "cpu/relu.h"
#include "cpu/scratch.h"
#include "cpu/transpose_square.h"

namespace heddle::cpu_kernels {
namespace {

// 0 in place of what is below 0.
template <class T> Lanes<T> relu(Lanes<T> bits) {
  const Lanes<T> limit = Lanes<T>{} + kNegativeInfinity<T>;
  return bits <= limit ? Lanes<T>{} : bits;
}

}  // namespace

// Reads the planes of a block from end to end, which prefetchers follow, into a buffer that fits the cache,
// and transposes that.
template <class T>
void into_blocks(const T* plain, const T* y, std::int64_t images, std::int64_t channels, std::int64_t pixels,
                 T* blocked) {
  const std::int64_t size = kChannelBlock * pixels;
  const Scratch room(y ? sizeof(T) * static_cast<std::size_t>(size) : 0);
  const auto unchanged = [](Lanes<T> row) { return row; };
  for (std::int64_t block = 0; block < images * channels / kChannelBlock; ++block) {
    const T* planes = plain + block * size;
    if (y) {
      relu_gradient(planes, y + block * size, size, room.as<T>());
      planes = room.as<const T>();
    }
    for (std::int64_t pixel = 0; pixel < pixels; pixel += kLanes) {
      // The last square overlaps the one before it, and computes the same values again.
      const std::int64_t at = std::min(pixel, pixels - kLanes);
      transpose_square(planes + at, pixels, blocked + block * size + at * kChannelBlock, kChannelBlock,
                       unchanged);
    }
  }
}

template <class T>
void from_blocks(const T* blocked, std::int64_t images, std::int64_t channels, std::int64_t pixels,
                 bool with_relu, T* plain) {
  const std::int64_t size = kChannelBlock * pixels;
  const auto run = [&](const auto& change) {
    for (std::int64_t block = 0; block < images * channels / kChannelBlock; ++block)
      for (std::int64_t pixel = 0; pixel < pixels; pixel += kLanes) {
        const std::int64_t at = std::min(pixel, pixels - kLanes);
        transpose_square(blocked + block * size + at * kChannelBlock, kChannelBlock,
                         plain + block * size + at, pixels, change);
      }
  };
  if (with_relu) {
    run([](Lanes<T> row) { return relu<T>(row); });
  } else {
    run([](Lanes<T> row) { return row; });
  }
}

#define HEDDLE_CHANNEL_BLOCKS(T)                                                               \
  template void into_blocks(const T*, const T*, std::int64_t, std::int64_t, std::int64_t, T*); \
  template void from_blocks(const T*, std::int64_t, std::int64_t, std::int64_t, bool, T*);
HEDDLE_CHANNEL_BLOCKS(float)
HEDDLE_CHANNEL_BLOCKS(BFloat16)
#undef HEDDLE_CHANNEL_BLOCKS

}  // namespace heddle::cpu_kernels
