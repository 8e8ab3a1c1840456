// A product of two matrices whose elements are computed or loaded one by one: tiles in shared memory, and a square of elements in the
// registers of each thread. Matrix products and convolutions are made of it.
//
// An element of the result is the sum of its products in the order of k, by multiply-adds that round once. Few results of long
// sums are divided into parts of at least 1,024 products, whose sums are added in order, in f64 for floating types. So
// the order depends on the sizes of a product, not on the GPU or the grid.
//
// P says what is multiplied:
//   using T = Floats;                                   arithmetic.h
//   long long rows, columns, batches;                   of the result
//   struct Line, Point;                                 a row or a column; a place along k. Beyond the end they give 0
//   Line a_line(long long batch, long long row) const;  b_line likewise
//   Point point(long long k) const;
//   Sum a(const Line&, const Point&) const;             an element of the left matrix; b: of the right one
//   bool a_dense() const;                               whether neighbours along k are neighbours in memory, rather than those
//                                                       along rows; b_dense likewise
//   void finish(long long batch, long long row, long long column, Sum sum) const;
#pragma once

#include "cuda/arithmetic.h"
#include "cuda/tile.h"
#include "gpu/kernel.h"
#include "gpu/layout.h"

namespace heddle::cuda_kernels {

// kMicro * kMicro elements a thread, in squares of 4 * 4; kStep places of k at a time.
template <class P, int kMicro, int kStep> struct TileProduct {
  using T = typename P::T;
  using Sum = typename T::Sum;
  using Line = typename P::Line;
  using Point = typename P::Point;
  static constexpr int kTile = kTileSide * kMicro;
  static_assert(kTile * kStep == 4 * kTileThreads && kMicro % 4 == 0,
                "a thread loads four elements of each tile");
  using Tile = Tiles<Sum, kTile, kStep>;

  P p;
  Sum* parts;  // null: results are finished at once
  long long down, across, steps, part_steps, blocks;

  // What a thread loads of a tile: one place along k of four lines, or four places of one line.
  struct Share {
    Line lines[4];
    Sum next[4];
    bool dense;
  };
  static HEDDLE_DEVICE int line_of(int rank, int i, bool dense) {
    return dense ? rank / kStep + i * (kTileThreads / kStep) : rank % kTile;
  }
  static HEDDLE_DEVICE int place_of(int rank, int i, bool dense) {
    return dense ? rank % kStep : rank / kTile + i * (kTileThreads / kTile);
  }
  // The points of a step, which several threads need: some of them compute one each.
  HEDDLE_DEVICE void find(int rank, long long step, Point (&points)[2][kStep]) const {
    if (rank < kStep) points[step & 1][rank] = p.point(step * kStep + rank);
  }
  template <bool left> HEDDLE_DEVICE void fetch(int rank, const Point (&points)[kStep], Share& share) const {
    HEDDLE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const Point& point = points[place_of(rank, share.dense ? 0 : i, share.dense)];
      const Line& line = share.lines[i];
      share.next[i] = left ? p.a(line, point) : p.b(line, point);
    }
  }
  static HEDDLE_DEVICE void keep(int rank, const Share& share, Sum (&to)[kStep][Tile::kRow]) {
    HEDDLE_UNROLL
    for (int i = 0; i < 4; ++i)
      to[place_of(rank, i, share.dense)][line_of(rank, i, share.dense)] = share.next[i];
  }
  // The elements of a tile's row, or column, that a thread computes with: four at a time, from all over the tile.
  static HEDDLE_DEVICE int of_micro(int side, int i) { return i / 4 * (kTileSide * 4) + side * 4 + i % 4; }

  static HEDDLE_DEVICE void multiply(const Tile& tile, int x, int y, Sum (&sums)[kMicro][kMicro]) {
    HEDDLE_UNROLL
    for (int s = 0; s < kStep; ++s) {
      Sum a[kMicro], b[kMicro];
      HEDDLE_UNROLL
      for (int i = 0; i < kMicro; i += 4) {
        const auto& left = *reinterpret_cast<const Four<Sum>*>(&tile.left[s][of_micro(y, i)]);
        const auto& right = *reinterpret_cast<const Four<Sum>*>(&tile.right[s][of_micro(x, i)]);
        HEDDLE_UNROLL
        for (int j = 0; j < 4; ++j) a[i + j] = left.values[j], b[i + j] = right.values[j];
      }
      HEDDLE_UNROLL
      for (int i = 0; i < kMicro; ++i) {
        HEDDLE_UNROLL
        for (int j = 0; j < kMicro; ++j) sums[i][j] = T::multiply_add(sums[i][j], a[i], b[j]);
      }
    }
  }

  HEDDLE_DEVICE void write(long long batch, long long part, long long row, long long column, Sum sum) const {
    if (row >= p.rows || column >= p.columns) return;
    if (parts)
      parts[((part * p.batches + batch) * p.rows + row) * p.columns + column] = sum;
    else
      p.finish(batch, row, column, sum);
  }

  // One tile: its batch, its part of the sums, its first row and column.
  HEDDLE_DEVICE void tile(on_gpu::Thread& thread, Tile (&tiles)[2], Point (&points)[2][kStep],
                          long long batch, long long part, long long row, long long column) const {
    const int rank = thread.rank(), x = rank % kTileSide, y = rank / kTileSide;
    const long long begin = part * part_steps, end = begin + part_steps < steps ? begin + part_steps : steps;
    const bool computes = row + y * 4 < p.rows && column + x * 4 < p.columns;
    Share a, b;
    a.dense = p.a_dense();
    b.dense = p.b_dense();
    HEDDLE_UNROLL
    for (int i = 0; i < 4; ++i) {
      a.lines[i] = p.a_line(batch, row + line_of(rank, i, a.dense));
      b.lines[i] = p.b_line(batch, column + line_of(rank, i, b.dense));
    }
    Sum sums[kMicro][kMicro] = {};
    if (begin < end) find(rank, begin, points);
    if (begin + 1 < end) find(rank, begin + 1, points);
    thread.barrier();
    if (begin < end) fetch<true>(rank, points[begin & 1], a), fetch<false>(rank, points[begin & 1], b);
    for (long long step = begin; step < end; ++step) {
      Tile& now = tiles[step & 1];  // the other one may still be read
      keep(rank, a, now.left);
      keep(rank, b, now.right);
      thread.barrier();
      const long long next = step + 1;
      if (next < end) fetch<true>(rank, points[next & 1], a), fetch<false>(rank, points[next & 1], b);
      if (next + 1 < end) find(rank, next + 1, points);  // in the place of those of this step
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
    HEDDLE_SHARED(thread, points, Point[2][kStep]);
    for (long long block = thread.block_index().x; block < blocks; block += thread.grid_dim().x) {
      const long long row = block % down, others = block / down;  // neighbours share columns
      const long long column = others % across, rest = others / across;
      tile(thread, tiles, points, rest % p.batches, rest / p.batches, row * kTile, column * kTile);
      thread.barrier();
    }
  }
};

}  // namespace heddle::cuda_kernels
