#include "families/conv/cpu/channel_blocks.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include <heddle/half.h>

#include "cpu/relu.h"
#include "cpu/scratch.h"

namespace heddle::cpu_kernels {
namespace {

constexpr int kLanes = 16;

// The bits of 16 elements of `bytes` bytes.
template <int bytes> struct LanesOf {
  using Bits = std::conditional_t<bytes == 4, std::int32_t, std::int16_t>;
  typedef Bits Type __attribute__((vector_size(kLanes * bytes)));
};
template <class T> using Lanes = typename LanesOf<sizeof(T)>::Type;

template <class T> Lanes<T> load(const T* from) {
  Lanes<T> value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Swaps the off-diagonal quarters of all Step x Step blocks on the rows first and first + Step.
template <int Step, class V> void swap_blocks(V& first, V& second) {
  [&]<int... I>(std::integer_sequence<int, I...>) {
    const V low = __builtin_shufflevector(first, second, (I & Step ? kLanes + I - Step : I)...);
    const V high = __builtin_shufflevector(first, second, (I & Step ? kLanes + I : I + Step)...);
    first = low;
    second = high;
  }
  (std::make_integer_sequence<int, kLanes>());
}

template <int Step, class V> void transpose_step(V* rows) {
  for (int i = 0; i < kLanes; ++i) {
    if ((i & Step) == 0) swap_blocks<Step>(rows[i], rows[i + Step]);
  }
}

// Transposes a 16 x 16 matrix in registers: blocks of 1, 2, 4 and 8 are swapped (Eklundh, IEEE Trans.
// Computers 1972).
template <class V> void transpose(V* rows) {
  transpose_step<1>(rows);
  transpose_step<2>(rows);
  transpose_step<4>(rows);
  transpose_step<8>(rows);
}

// Transposes 16 x 16 elements of `from`, whose rows are `from_stride` apart, to `to`. `change` gets each row of 16 pixels that is
// written, if that are `to`'s.
template <class T, class Change>
void transpose_square(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride,
                      const Change& change) {
  Lanes<T> rows[kLanes];
  for (int i = 0; i < kLanes; ++i) rows[i] = load(from + i * from_stride);
  transpose(rows);
  for (int i = 0; i < kLanes; ++i) {
    const Lanes<T> row = change(rows[i]);
    std::memcpy(to + i * to_stride, &row, sizeof row);
  }
}

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
