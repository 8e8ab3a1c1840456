// Heddle's own product of matrices on GPUs: tiles in shared memory, and a block of elements in the registers of each thread.
//
// An element is the sum of its products in the order of terms and of k, by multiply-adds that round once. Few elements of long
// sums are divided into parts of at least 1,024 products, whose sums are added in order, in f64 for floating types. So
// the order depends on the sizes and dtypes of a product, not on the GPU or the grid.
#include <cmath>

#include "cuda/tiled_gemm.h"
#include "gpu/elements.h"
#include "gpu/kernel.h"
#include "gpu/layout.h"

namespace heddle::cuda_kernels {
namespace {

using on_gpu::Type;

// What differs between types: how an element is loaded, Sum, in which products are added up, and Total, in which sums are.
struct Floats {
  using Sum = float;
  using Total = double;
  static HEDDLE_DEVICE Sum load(const void* from, long long at, Type type) {
    return on_gpu::load<float>(from, at, type);
  }
  static HEDDLE_DEVICE Sum multiply_add(Sum sum, Sum a, Sum b) { return std::fma(a, b, sum); }
};
struct Doubles {
  using Sum = double;
  using Total = double;
  static HEDDLE_DEVICE Sum load(const void* from, long long at, Type) {
    return static_cast<const double*>(from)[at];
  }
  static HEDDLE_DEVICE Sum multiply_add(Sum sum, Sum a, Sum b) { return std::fma(a, b, sum); }
};
// Integers of up to 32 bits: the low bits of sums do not depend on the high ones.
struct Words {
  using Sum = std::uint32_t;
  using Total = std::uint32_t;
  static HEDDLE_DEVICE Sum load(const void* from, long long at, Type type) {
    const int bytes = on_gpu::size_of(type);
    if (bytes == 1) return static_cast<const std::uint8_t*>(from)[at];
    if (bytes == 2) return static_cast<const std::uint16_t*>(from)[at];
    return static_cast<const std::uint32_t*>(from)[at];
  }
  static HEDDLE_DEVICE Sum multiply_add(Sum sum, Sum a, Sum b) { return sum + a * b; }
};
struct LongWords {
  using Sum = std::uint64_t;
  using Total = std::uint64_t;
  static HEDDLE_DEVICE Sum load(const void* from, long long at, Type) {
    return static_cast<const std::uint64_t*>(from)[at];
  }
  static HEDDLE_DEVICE Sum multiply_add(Sum sum, Sum a, Sum b) { return sum + a * b; }
};

template <class Sum> HEDDLE_DEVICE void put(void* to, long long at, Type type, Sum value) {
  if constexpr (std::is_same_v<Sum, std::uint32_t>) {
    const int bytes = on_gpu::size_of(type);
    if (type == Type::boolean)
      static_cast<std::uint8_t*>(to)[at] = value != 0;
    else if (bytes == 1)
      static_cast<std::uint8_t*>(to)[at] = static_cast<std::uint8_t>(value);
    else if (bytes == 2)
      static_cast<std::uint16_t*>(to)[at] = static_cast<std::uint16_t>(value);
    else
      static_cast<std::uint32_t*>(to)[at] = value;
  } else if constexpr (std::is_same_v<Sum, float>) {
    if (type == Type::f16)
      static_cast<on_gpu::F16*>(to)[at] = on_gpu::narrow(value, on_gpu::F16{});
    else if (type == Type::bf16)
      static_cast<on_gpu::BF16*>(to)[at] = on_gpu::narrow(value, on_gpu::BF16{});
    else
      static_cast<float*>(to)[at] = value;
  } else {
    static_cast<Sum*>(to)[at] = value;
  }
}

// bool: "and" and "or" by sums that stay below 2.
struct Truths {
  using Sum = std::uint32_t;
  using Total = std::uint32_t;
  static HEDDLE_DEVICE Sum load(const void* from, long long at, Type) {
    return static_cast<const std::uint8_t*>(from)[at] != 0;
  }
  static HEDDLE_DEVICE Sum multiply_add(Sum sum, Sum a, Sum b) { return sum | (a & b); }
};

// What follows the sum of an element: column `column` of d, which is element `at`.
template <class T>
HEDDLE_DEVICE void finish(const Gemm& g, long long at, long long column, typename T::Sum sum) {
  using Sum = typename T::Sum;
  if constexpr (std::is_floating_point_v<Sum>) {
    if (g.alpha != 1) sum *= static_cast<Sum>(g.alpha);
    if (g.beta != 0) sum += static_cast<Sum>(g.beta) * T::load(g.d, at, Type{g.d_type});
    if (g.bias) sum += T::load(g.bias, column, Type{g.bias_type});
    if (g.relu) sum = sum < 0 ? 0 : sum;  // NaN stays
  } else {
    if (g.beta != 0) sum = T::multiply_add(sum, T::load(g.d, at, Type{g.d_type}), 1);
  }
  put<Sum>(g.d, at, Type{g.d_type}, sum);
}

// The offsets in a and b of the index-th of the stacks.
struct Offsets {
  long long a, b;
};
HEDDLE_DEVICE Offsets offsets_of(const GemmAxes& axes, long long index) {
  Offsets offsets{0, 0};
  for (int d = axes.dims - 1; d >= 0; --d) {
    const long long at = d == 0 ? index : index % axes.sizes[d];
    index /= axes.sizes[d];
    offsets.a += at * axes.a[d];
    offsets.b += at * axes.b[d];
  }
  return offsets;
}

constexpr int kBlock = 256, kSide = 16;  // threads of a block, which are a square

template <class Sum, int kTile, int kStep> struct alignas(16) Tiles {
  static constexpr int kRow = kTile + static_cast<int>(16 / sizeof(Sum));  // keeps rows in other banks
  alignas(16) Sum left[kStep][kRow];
  alignas(16) Sum right[kStep][kRow];
};
template <class Sum> struct alignas(16) Four { Sum values[4]; };

// kMicro * kMicro elements a thread, in squares of 4 * 4; kStep elements of k at a time.
template <class T, int kMicro, int kStep> struct TiledGemm {
  using Sum = typename T::Sum;
  static constexpr int kTile = kSide * kMicro, kEach = kTile * kStep / kBlock;
  static_assert(kEach == 4 && kMicro % 4 == 0, "a thread loads four elements of each tile");
  using Tile = Tiles<Sum, kTile, kStep>;

  Gemm g;
  Sum* parts;  // null: d is written
  long long down, across, batches;
  long long slices;  // of k, of one term
  long long steps, part_steps, blocks;

  // Where the elements of a tile that a thread loads are: along the axis that is dense in memory first.
  struct Place {
    int along, at;  // in the tile, and of k
  };
  static HEDDLE_DEVICE Place place(int thread, int i, bool k_dense) {
    const int element = thread + i * kBlock;
    if (k_dense) return {element / kStep, element % kStep};
    return {element % kTile, element / kTile};
  }
  // Loads four elements of a matrix whose rows, or columns, from `first` on are multiplied along k.
  HEDDLE_DEVICE void fetch(int thread, const GemmMatrix& from, long long offset, bool k_dense,
                           long long first, long long end, long long slice, Sum (&to)[4]) const {
    for (int i = 0; i < 4; ++i) {
      const Place at = place(thread, i, k_dense);
      const long long row = first + at.along, k = slice * kStep + at.at;
      const long long where = k_dense ? row * from.stride + k : k * from.stride + row;
      to[i] = row < end && k < g.k ? T::load(from.data, offset + where, Type{g.type}) : Sum{0};
    }
  }
  static HEDDLE_DEVICE void keep(int thread, bool k_dense, const Sum (&from)[4],
                                 Sum (&to)[kStep][Tile::kRow]) {
    for (int i = 0; i < 4; ++i) {
      const Place at = place(thread, i, k_dense);
      to[at.at][at.along] = from[i];
    }
  }
  // The elements of a tile's row, or column, that a thread computes with: four at a time, from all over the tile.
  static HEDDLE_DEVICE int of_micro(int side, int i) { return (i / 4) * (kSide * 4) + side * 4 + i % 4; }

  static HEDDLE_DEVICE void multiply(const Tile& tile, int x, int y, Sum (&sums)[kMicro][kMicro]) {
    HEDDLE_UNROLL
    for (int s = 0; s < kStep; ++s) {
      Sum a[kMicro], b[kMicro];
      HEDDLE_UNROLL
      for (int i = 0; i < kMicro; i += 4) {
        const auto& down = *reinterpret_cast<const Four<Sum>*>(&tile.left[s][of_micro(y, i)]);
        const auto& right = *reinterpret_cast<const Four<Sum>*>(&tile.right[s][of_micro(x, i)]);
        HEDDLE_UNROLL
        for (int j = 0; j < 4; ++j) a[i + j] = down.values[j], b[i + j] = right.values[j];
      }
      HEDDLE_UNROLL
      for (int i = 0; i < kMicro; ++i) {
        HEDDLE_UNROLL
        for (int j = 0; j < kMicro; ++j) sums[i][j] = T::multiply_add(sums[i][j], a[i], b[j]);
      }
    }
  }

  HEDDLE_DEVICE void write(long long batch, long long part, long long row, long long column, Sum sum) const {
    if (row >= g.m || column >= g.n) return;
    if (parts)
      parts[((part * batches + batch) * g.m + row) * g.n + column] = sum;
    else
      finish<T>(g, batch * g.d_batch + row * g.d_stride + column, column, sum);
  }

  // One tile: its batch, its part of the sums, its first row and column.
  HEDDLE_DEVICE void tile(on_gpu::Thread& thread, Tile (&tiles)[2], long long batch, long long part,
                          long long row, long long column) const {
    const int rank = thread.rank(), x = rank % kSide, y = rank / kSide;
    const long long begin = part * part_steps, end = begin + part_steps < steps ? begin + part_steps : steps;
    const bool a_dense = !g.a.transposed, b_dense = g.b.transposed;
    const bool computes = row + y * 4 < g.m && column + x * 4 < g.n;
    const Offsets start = offsets_of(g.batches, batch);
    long long term = begin / slices, slice = begin % slices;
    Offsets at = offsets_of(g.terms, term);
    Sum sums[kMicro][kMicro] = {}, next_a[4], next_b[4];
    if (begin < end) {
      fetch(rank, g.a, start.a + at.a, a_dense, row, g.m, slice, next_a);
      fetch(rank, g.b, start.b + at.b, b_dense, column, g.n, slice, next_b);
    }
    for (long long step = begin; step < end; ++step) {
      Tile& now = tiles[step & 1];  // the other one may still be read
      keep(rank, a_dense, next_a, now.left);
      keep(rank, b_dense, next_b, now.right);
      thread.barrier();
      if (step + 1 < end) {
        if (++slice == slices) slice = 0, at = offsets_of(g.terms, ++term);
        fetch(rank, g.a, start.a + at.a, a_dense, row, g.m, slice, next_a);
        fetch(rank, g.b, start.b + at.b, b_dense, column, g.n, slice, next_b);
      }
      if (computes) multiply(now, x, y, sums);
    }
    HEDDLE_UNROLL
    for (int i = 0; i < kMicro; ++i) {
      HEDDLE_UNROLL
      for (int j = 0; j < kMicro; ++j)
        write(batch, part, row + of_micro(y, i), column + of_micro(x, j), sums[i][j]);
    }
  }

  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    HEDDLE_SHARED(thread, tiles, Tile[2]);
    for (long long block = thread.block_index().x; block < blocks; block += thread.grid_dim().x) {
      long long rest = block;
      const long long row = rest % down;  // neighbours share columns
      rest /= down;
      const long long column = rest % across;
      rest /= across;
      tile(thread, tiles, rest % batches, rest / batches, row * kTile, column * kTile);
      thread.barrier();
    }
  }
};

// Adds the parts of each element in order.
template <class T> struct GemmEnd {
  Gemm g;
  long long count, elements;  // sums of an element, elements of d
  const typename T::Sum* sums;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < elements; i += thread.global_size()) {
      typename T::Total total = sums[i];
      for (long long part = 1; part < count; ++part) total = add(total, sums[part * elements + i]);
      const long long row = i / g.n, column = i - row * g.n, batch = row / g.m;
      finish<T>(g, batch * g.d_batch + (row - batch * g.m) * g.d_stride + column, column,
                static_cast<typename T::Sum>(total));
    }
  }
  static HEDDLE_DEVICE typename T::Total add(typename T::Total total, typename T::Sum sum) {
    if constexpr (std::is_same_v<T, Truths>)
      return total | sum;
    else
      return total + sum;
  }
};

const char* text_of(cudaError_t status) {
  if (status == cudaSuccess) return nullptr;
  cudaGetLastError();
  return cudaGetErrorString(status);
}

long long divided(long long count, long long by) { return (count + by - 1) / by; }

template <class T> const char* end_as(void* stream, const Gemm& g, long long count, const void* sums) {
  const long long elements = g.batches.count() * g.m * g.n;
  const GemmEnd<T> kernel{g, count, elements, static_cast<const typename T::Sum*>(sums)};
  return on_gpu::launch_over(static_cast<cudaStream_t>(stream), elements, kernel);
}

template <class T, int kMicro, int kStep>
const char* launch_tiles(void* stream, const Gemm& g, const GemmPlan& plan, void* parts) {
  using Kernel = TiledGemm<T, kMicro, kStep>;
  Kernel kernel{};
  kernel.g = g;
  kernel.parts = plan.parts > 1 ? static_cast<typename T::Sum*>(parts) : nullptr;
  kernel.down = divided(g.m, Kernel::kTile);
  kernel.across = divided(g.n, Kernel::kTile);
  kernel.batches = g.batches.count();
  kernel.slices = divided(g.k, kStep);
  kernel.steps = plan.steps;
  kernel.part_steps = plan.part_steps;
  kernel.blocks = kernel.down * kernel.across * kernel.batches * plan.parts;
  if (kernel.slices == 0) kernel.slices = 1;  // no step is taken
  constexpr long long kMost = 0x7fffffff;
  const dim3 grid(static_cast<unsigned>(kernel.blocks < kMost ? kernel.blocks : kMost));
  const char* const problem =
      text_of(on_gpu::launch(static_cast<cudaStream_t>(stream), grid, dim3(kBlock), 0, kernel));
  return problem || plan.parts == 1 ? problem : end_as<T>(stream, g, plan.parts, parts);
}

constexpr int kStepOfSmall = 16, kStepOfLarge = 8;

int bytes_of_sum(Type type) { return type == Type::f64 || type == Type::i64 || type == Type::u64 ? 8 : 4; }

}  // namespace

GemmPlan plan_gemm(const Gemm& g) {
  constexpr long long kLarge = 128, kSmall = 64;
  constexpr long long kManyTiles = 256;  // as many blocks as keep all of a GPU busy
  constexpr long long kLeastPart = 1024;
  const Type type{g.type};
  const bool single = type == Type::f32 || type == Type::f16 || type == Type::bf16;
  const long long batches = g.batches.count();
  GemmPlan plan{};
  const bool fills = g.m > kSmall && g.n > kSmall;
  plan.large = single && fills && batches * divided(g.m, kLarge) * divided(g.n, kLarge) >= kManyTiles / 2;
  plan.steps = divided(g.k, plan.large ? kStepOfLarge : kStepOfSmall) * g.terms.count();
  plan.parts = 1;
  plan.part_steps = plan.steps > 0 ? plan.steps : 1;
  const long long tiles = batches * divided(g.m, kSmall) * divided(g.n, kSmall);
  const long long most = plan.steps * kStepOfSmall / kLeastPart, wanted = 2 * kManyTiles / tiles;
  if (!plan.large && most > 1 && wanted > 1) {
    plan.part_steps = divided(plan.steps, most < wanted ? most : wanted);
    plan.parts = divided(plan.steps, plan.part_steps);
  }
  if (plan.parts > 1) plan.bytes = plan.parts * batches * g.m * g.n * bytes_of_sum(type);
  return plan;
}

const char* launch_gemm(void* stream, const Gemm& g, const GemmPlan& plan, void* parts) {
  switch (Type{g.type}) {
    case Type::f32:
    case Type::f16:
    case Type::bf16:
      if (plan.large) return launch_tiles<Floats, 8, kStepOfLarge>(stream, g, plan, parts);
      return launch_tiles<Floats, 4, kStepOfSmall>(stream, g, plan, parts);
    case Type::f64:
      return launch_tiles<Doubles, 4, kStepOfSmall>(stream, g, plan, parts);
    case Type::i64:
    case Type::u64:
      return launch_tiles<LongWords, 4, kStepOfSmall>(stream, g, plan, parts);
    case Type::boolean:
      return launch_tiles<Truths, 4, kStepOfSmall>(stream, g, plan, parts);
    default:
      return launch_tiles<Words, 4, kStepOfSmall>(stream, g, plan, parts);
  }
}

const char* launch_gemm_end(void* stream, const Gemm& g, long long count, const void* sums) {
  switch (Type{g.type}) {
    case Type::f64:
      return end_as<Doubles>(stream, g, count, sums);
    default:
      return end_as<Floats>(stream, g, count, sums);
  }
}

}  // namespace heddle::cuda_kernels
