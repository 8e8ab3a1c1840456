// A tile of two matrices in shared memory (tile_product.h).
#pragma once

#include "gpu/kernel.h"

namespace heddle::cuda_kernels {

constexpr int kTileThreads = 256, kTileSide = 16;  // the threads of a block are a square

template <class Sum, int kTile, int kStep> struct alignas(16) Tiles {
  static constexpr int kRow = kTile + static_cast<int>(16 / sizeof(Sum));  // rows begin in different banks
  alignas(16) Sum left[kStep][kRow];
  alignas(16) Sum right[kStep][kRow];
};
template <class Sum> struct alignas(16) Four { Sum values[4]; };

}  // namespace heddle::cuda_kernels
