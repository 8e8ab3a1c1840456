#include "families/conv/cpu/masked_blocks.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cpu/scratch.h"

namespace heddle::cpu_kernels {
namespace {

constexpr int kLanes = 16;
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));

Lanes load(const float* from) {
  Lanes value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Swaps the off-diagonal quarters of all Step x Step blocks on the rows first and first + Step.
template <int Step> void swap_blocks(Lanes& first, Lanes& second) {
  [&]<int... I>(std::integer_sequence<int, I...>) {
    const Lanes low = __builtin_shufflevector(first, second, (I & Step ? kLanes + I - Step : I)...);
    const Lanes high = __builtin_shufflevector(first, second, (I & Step ? kLanes + I : I + Step)...);
    first = low;
    second = high;
  }
  (std::make_integer_sequence<int, kLanes>());
}

template <int Step> void transpose_step(Lanes* rows) {
  for (int i = 0; i < kLanes; ++i) {
    if ((i & Step) == 0) swap_blocks<Step>(rows[i], rows[i + Step]);
  }
}

// Transposes a 16 x 16 matrix in registers: blocks of 1, 2, 4 and 8 are swapped (Eklundh, IEEE Trans.
// Computers 1972).
void transpose(Lanes* rows) {
  transpose_step<1>(rows);
  transpose_step<2>(rows);
  transpose_step<4>(rows);
  transpose_step<8>(rows);
}

// Transposes 16 x 16 elements of row-major `from`, whose rows are `stride` apart, to `to`, whose rows are
// adjacent.
void transpose_square(const float* from, std::int64_t stride, float* to) {
  Lanes rows[kLanes];
  for (int i = 0; i < kLanes; ++i) rows[i] = load(from + i * stride);
  transpose(rows);
  std::memcpy(to, rows, sizeof rows);
}

void mask(const float* __restrict grad, const float* __restrict y, std::int64_t count, float* __restrict to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = y[i] <= 0 ? 0.0f : grad[i];
}

}  // namespace

// Reads the planes of a block from end to end, which prefetchers follow, into a buffer that fits the cache,
// and transposes that.
void mask_into_blocks(const float* grad, const float* y, std::int64_t images, std::int64_t channels,
                      std::int64_t pixels, float* blocked) {
  const std::int64_t size = kChannelBlock * pixels;
  const Scratch room(sizeof(float) * static_cast<std::size_t>(size));
  float* planes = room.as<float>();
  for (std::int64_t block = 0; block < images * channels / kChannelBlock; ++block) {
    mask(grad + block * size, y + block * size, size, planes);
    for (std::int64_t pixel = 0; pixel < pixels; pixel += kLanes) {
      // The last square overlaps the one before it, and computes the same values again.
      const std::int64_t at = std::min(pixel, pixels - kLanes);
      transpose_square(planes + at, pixels, blocked + block * size + at * kChannelBlock);
    }
  }
}

}  // namespace heddle::cpu_kernels
