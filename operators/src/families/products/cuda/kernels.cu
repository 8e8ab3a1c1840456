// Sums of columns, and the gradient through a fused relu. Both give the CPU's bits.
#include "families/products/cuda/kernels.h"
#include "gpu/elements.h"
#include "gpu/layout.h"

namespace heddle::cuda_kernels {
namespace {

using on_gpu::Type;

constexpr long long kRows = 64;  // rows that are added one after the other

HEDDLE_DEVICE void put_sum(const ColumnSums& problem, long long column, double sum) {
  on_gpu::store(problem.sums, column, Type{problem.sums_type}, sum);
}

// One sum for each column and each 64 rows: parts[block][column], or the result if there are no more rows. Consecutive threads take
// consecutive columns.
template <class T> struct BlockSums {
  ColumnSums problem;
  double* parts;
  long long blocks;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long columns = problem.columns;
    for (long long i = thread.global_index(); i < blocks * columns; i += thread.global_size()) {
      const long long block = i / columns, column = i - block * columns, begin = block * kRows;
      const long long end = begin + kRows < problem.rows ? begin + kRows : problem.rows;
      T sum = 0;
      for (long long row = begin; row < end; ++row)
        sum += on_gpu::load<T>(problem.g, row * columns + column, Type{problem.type});
      if (parts)
        parts[i] = sum;
      else
        put_sum(problem, column, sum);
    }
  }
};

// Adds the sums of blocks in pairs, as the CPU divides rows: more than 64 rows into two halves, the first of which is rounded up to
// whole blocks.
constexpr int kLevels = 5, kSubtrees = 1 << kLevels, kColumns = 8;
constexpr int kDeepest = 32;  // levels below those: as many as rows of memory need

HEDDLE_DEVICE long long first_half(long long rows) { return (rows / 2 + kRows - 1) / kRows * kRows; }

struct AddBlocks {
  ColumnSums problem;
  const double* parts;

  // The sum of rows begin to begin + rows, of which more than one part may be needed.
  HEDDLE_DEVICE double subtree(long long begin, long long rows, long long column) const {
    double waiting[kDeepest];  // sums of first halves
    unsigned path = 0;         // whether a range is a second half, a bit for each level
    for (;;) {
      long long at = begin, rest = rows;
      int level = 0;
      for (; rest > kRows; ++level) {
        const long long half = first_half(rest);
        const bool second = (path >> level & 1) != 0;
        at += second ? half : 0;
        rest = second ? rest - half : half;
      }
      double sum = parts[at / kRows * problem.columns + column];
      for (; level > 0 && (path >> (level - 1) & 1) != 0; --level) {
        sum = waiting[level - 1] + sum;
        path ^= 1u << (level - 1);
      }
      if (level == 0) return sum;
      waiting[level - 1] = sum;
      path |= 1u << (level - 1);
    }
  }

  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    HEDDLE_SHARED(thread, sums, double[kSubtrees][kColumns]);
    HEDDLE_SHARED(thread, filled, bool[kSubtrees]);
    const int lane = thread.rank() % kColumns, tree = thread.rank() / kColumns;
    const long long column = static_cast<long long>(thread.block_index().x) * kColumns + lane;
    long long begin = 0, rows = problem.rows;
    bool mine = true;  // a range that is divided no more is the first subtree's
    for (int level = kLevels - 1; level >= 0; --level) {
      const bool second = (tree >> level & 1) != 0;
      if (rows <= kRows) {
        mine &= !second;
        continue;
      }
      const long long half = first_half(rows);
      begin += second ? half : 0;
      rows = second ? rows - half : half;
    }
    if (lane == 0) filled[tree] = mine;
    if (mine && column < problem.columns) sums[tree][lane] = subtree(begin, rows, column);
    for (int by = 1; by < kSubtrees; by *= 2) {
      thread.barrier();
      if (tree % (2 * by) == 0 && filled[tree + by]) sums[tree][lane] += sums[tree + by][lane];
    }
    if (tree == 0 && column < problem.columns) put_sum(problem, column, sums[0][lane]);
  }
};

template <class Bits> struct Mask {
  const Bits *g, *y;
  Bits* out;
  long long count;
  Bits infinity;  // that of -inf without its sign
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) {
      const Bits bits = y[i], size = static_cast<Bits>(bits & static_cast<Bits>(~kSign));
      const bool dropped = size == 0 || ((bits & kSign) != 0 && size <= infinity);
      out[i] = dropped ? Bits{0} : g[i];
    }
  }
};

template <class Bits> const char* mask(void* stream, const ReluMask& problem, unsigned long long infinity) {
  const Mask<Bits> kernel{static_cast<const Bits*>(problem.g), static_cast<const Bits*>(problem.y),
                          static_cast<Bits*>(problem.out), problem.count, static_cast<Bits>(infinity)};
  return on_gpu::launch_over(static_cast<cudaStream_t>(stream), problem.count, kernel);
}

}  // namespace

long long column_sums_bytes(const ColumnSums& problem) {
  const long long blocks = (problem.rows + kRows - 1) / kRows;
  return blocks > 1 ? blocks * problem.columns * static_cast<long long>(sizeof(double)) : 0;
}

const char* launch_column_sums(void* stream, const ColumnSums& problem, void* parts) {
  const auto native = static_cast<cudaStream_t>(stream);
  const long long blocks = problem.rows > kRows ? (problem.rows + kRows - 1) / kRows : 1;
  auto* const to = blocks > 1 ? static_cast<double*>(parts) : nullptr;
  const char* failed = nullptr;
  if (Type{problem.type} == Type::f64)
    failed = on_gpu::launch_over(native, blocks * problem.columns, BlockSums<double>{problem, to, blocks});
  else
    failed = on_gpu::launch_over(native, blocks * problem.columns, BlockSums<float>{problem, to, blocks});
  if (failed || blocks == 1) return failed;
  const dim3 grid(static_cast<unsigned>((problem.columns + kColumns - 1) / kColumns));
  const cudaError_t status =
      on_gpu::launch(native, grid, dim3(kColumns * kSubtrees), 0, AddBlocks{problem, to});
  if (status == cudaSuccess) return nullptr;
  cudaGetLastError();
  return cudaGetErrorString(status);
}

const char* launch_relu_mask(void* stream, const ReluMask& problem) {
  switch (Type{problem.type}) {
    case Type::f64:
      return mask<std::uint64_t>(stream, problem, 0x7ff0000000000000);
    case Type::f16:
      return mask<std::uint16_t>(stream, problem, 0x7c00);
    case Type::bf16:
      return mask<std::uint16_t>(stream, problem, 0x7f80);
    default:
      return mask<std::uint32_t>(stream, problem, 0x7f800000);
  }
}

}  // namespace heddle::cuda_kernels
