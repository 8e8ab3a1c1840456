// Launches of tile products (tile_product.h): their division into parts, and the kernel that adds up the parts.
#pragma once

#include "cuda/tile_product.h"

namespace heddle::cuda_kernels {

struct TilePlan {
  bool large;            // tiles of 128 * 128 elements instead of 64 * 64
  long long steps;       // slices of k
  long long part_steps;  // slices that one block adds up
  long long parts;       // sums of which each element is made; more than 1 need memory
};

inline long long divided(long long count, long long by) { return (count + by - 1) / by; }

// How a product is divided: by its sizes alone. Each of `terms` has k products.
inline TilePlan plan_tiles(long long rows, long long columns, long long batches, long long k, long long terms,
                           bool may_be_large) {
  constexpr long long kLarge = 128, kSmall = 64, kStepOfLarge = 8, kStepOfSmall = 16;
  constexpr long long kManyTiles = 128;  // as many blocks as keep all of a GPU busy
  constexpr long long kLeastPart = 1024;
  const bool fills = rows > kSmall && columns > kSmall;
  TilePlan plan{};
  plan.large =
      may_be_large && fills && batches * divided(rows, kLarge) * divided(columns, kLarge) >= kManyTiles;
  plan.steps = divided(k, plan.large ? kStepOfLarge : kStepOfSmall) * terms;
  plan.parts = 1;
  plan.part_steps = plan.steps > 0 ? plan.steps : 1;
  const long long tiles = batches * divided(rows, kSmall) * divided(columns, kSmall);
  const long long most = plan.steps * kStepOfSmall / kLeastPart, wanted = 4 * kManyTiles / tiles;
  if (!plan.large && most > 1 && wanted > 1) {
    plan.part_steps = divided(plan.steps, most < wanted ? most : wanted);
    plan.parts = divided(plan.steps, plan.part_steps);
  }
  return plan;
}

// Adds the parts of each element in order.
template <class P> struct TileEnd {
  P p;
  long long parts, elements;
  const typename P::T::Sum* sums;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < elements; i += thread.global_size()) {
      typename P::T::Total total = sums[i];
      for (long long part = 1; part < parts; ++part) total = P::T::add(total, sums[part * elements + i]);
      const long long row = i / p.columns, batch = row / p.rows;
      p.finish(batch, row - batch * p.rows, i - row * p.columns, static_cast<typename P::T::Sum>(total));
    }
  }
};

// Each element from `parts` sums, which are dense.
template <class P> const char* launch_end(void* stream, const P& p, long long parts, const void* sums) {
  const long long elements = p.batches * p.rows * p.columns;
  return on_gpu::launch_over(static_cast<cudaStream_t>(stream), elements,
                             TileEnd<P>{p, parts, elements, static_cast<const typename P::T::Sum*>(sums)});
}

template <int kMicro, class P>
const char* launch_tiles(void* stream, const P& p, const TilePlan& plan, void* parts) {
  using Kernel = TileProduct<P, kMicro, 64 / kMicro>;
  Kernel kernel{};
  kernel.p = p;
  kernel.parts = plan.parts > 1 ? static_cast<typename P::T::Sum*>(parts) : nullptr;
  kernel.down = divided(p.rows, Kernel::kTile);
  kernel.across = divided(p.columns, Kernel::kTile);
  kernel.steps = plan.steps;
  kernel.part_steps = plan.part_steps;
  kernel.blocks = kernel.down * kernel.across * p.batches * plan.parts;
  constexpr long long kMost = 0x7fffffff;
  const dim3 grid(static_cast<unsigned>(kernel.blocks < kMost ? kernel.blocks : kMost));
  const cudaError_t status =
      on_gpu::launch(static_cast<cudaStream_t>(stream), grid, dim3(kTileThreads), 0, kernel);
  if (status != cudaSuccess) {
    cudaGetLastError();
    return cudaGetErrorString(status);
  }
  return plan.parts == 1 ? nullptr : launch_end(stream, p, plan.parts, parts);
}

}  // namespace heddle::cuda_kernels
