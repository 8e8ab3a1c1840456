// What the kernels of attention on a GPU share: the scores of 32 queries and 32 keys, of which each of 256 threads has four, and products of
// such tiles with rows of arrays. A thread has row rank / 8 of a tile, and the columns rank % 8, 8 more, ...
#pragma once

#include "cuda/arithmetic.h"
#include "families/attention/cuda/kernels.h"
#include "gpu/kernel.h"

namespace heddle::cuda_kernels {

constexpr int kSide = 32, kAttentionThreads = 256, kLanes = 8, kEach = kSide / kLanes;
constexpr int kPieces = 4, kChunk = kPieces * kSide;  // columns of a result that a block computes

template <class Sum> struct AttentionTiles {
  Sum a[kSide][kSide + 1], b[kSide][kSide + 1], weights[kSide][kSide + 1];
};

// Rows of one head from `first` on, of which those from `end` on are 0.
struct HeadRows {
  const void* data;
  long long offset, step, first, end, columns;
};
HEDDLE_DEVICE inline HeadRows rows_of(const Heads& heads, long long batch, long long head, long long first,
                                      long long end, long long columns) {
  return {heads.data, batch * heads.batch + head * heads.head, heads.row, first, end, columns};
}

// A block of queries of one head, and a block of keys.
struct Tile {
  long long batch, head, query, key;
};

template <class Arithmetic> struct Scorer {
  using T = Arithmetic;
  using Sum = typename T::Sum;

  Attention p;

  HEDDLE_DEVICE long long visible(long long query) const {
    if (!p.causal) return p.keys;
    const long long count = p.keys - p.queries + query + 1;
    return count < 0 ? 0 : count < p.keys ? count : p.keys;
  }
  HEDDLE_DEVICE long long kv_head(long long head) const { return head / (p.heads / p.kv_heads); }
  HEDDLE_DEVICE static Sum nothing() { return -std::numeric_limits<Sum>::infinity(); }

  HEDDLE_DEVICE void load(int rank, const HeadRows& rows, long long column,
                          Sum (&to)[kSide][kSide + 1]) const {
    for (int i = 0; i < kSide * kSide / kAttentionThreads; ++i) {
      const int at = rank + i * kAttentionThreads, r = at / kSide, c = at % kSide;
      const long long row = rows.first + r;
      const bool inside = row < rows.end && column + c < rows.columns;
      to[r][c] = inside ? T::load(rows.data, rows.offset + row * rows.step + column + c, on_gpu::Type{p.type})
                        : Sum{0};
    }
  }
  // Scalar products of rows a with rows b.
  HEDDLE_DEVICE void products(on_gpu::Thread& thread, AttentionTiles<Sum>& tiles, const HeadRows& a,
                              const HeadRows& b, Sum (&to)[kEach]) const {
    const int rank = thread.rank(), row = rank / kLanes, lane = rank % kLanes;
    for (int i = 0; i < kEach; ++i) to[i] = 0;
    for (long long column = 0; column < a.columns; column += kSide) {
      load(rank, a, column, tiles.a);
      load(rank, b, column, tiles.b);
      thread.barrier();
      for (int c = 0; c < kSide; ++c) {
        HEDDLE_UNROLL
        for (int i = 0; i < kEach; ++i)
          to[i] = T::multiply_add(to[i], tiles.a[row][c], tiles.b[lane + i * kLanes][c]);
      }
      thread.barrier();
    }
  }
  // sums += weights, or their transpose, times columns `first` to first + kChunk of the rows. A barrier comes between the writes of
  // the weights and what is read here.
  template <bool transposed>
  HEDDLE_DEVICE void add_rows(on_gpu::Thread& thread, AttentionTiles<Sum>& tiles, const HeadRows& rows,
                              long long first, Sum (&sums)[kPieces * kEach]) const {
    const int rank = thread.rank(), row = rank / kLanes, lane = rank % kLanes;
    HEDDLE_UNROLL
    for (int piece = 0; piece < kPieces; ++piece) {
      if (first + piece * kSide >= rows.columns) continue;
      load(rank, rows, first + piece * kSide, tiles.b);
      thread.barrier();
      for (int r = 0; r < kSide; ++r) {
        const Sum weight = transposed ? tiles.weights[r][row] : tiles.weights[row][r];
        HEDDLE_UNROLL
        for (int i = 0; i < kEach; ++i) {
          Sum& sum = sums[piece * kEach + i];
          sum = T::multiply_add(sum, weight, tiles.b[r][lane + i * kLanes]);
        }
      }
      thread.barrier();
    }
  }

  // The scores of a tile, scaled and masked; -infinity where a key is hidden, and beyond the ends.
  HEDDLE_DEVICE void scores(on_gpu::Thread& thread, AttentionTiles<Sum>& tiles, const Tile& tile,
                            Sum (&to)[kEach]) const {
    products(thread, tiles, rows_of(p.query, tile.batch, tile.head, tile.query, p.queries, p.features),
             rows_of(p.key, tile.batch, kv_head(tile.head), tile.key, p.keys, p.features), to);
    const long long query = tile.query + thread.rank() / kLanes, seen = visible(query);
    for (int i = 0; i < kEach; ++i) {
      const long long key = tile.key + thread.rank() % kLanes + i * kLanes;
      if (query >= p.queries || key >= seen) {
        to[i] = nothing();
        continue;
      }
      to[i] *= static_cast<Sum>(p.scale);
      if (!p.mask) continue;
      const long long at = tile.batch * p.mask_steps[0] + tile.head * p.mask_steps[1] +
                           query * p.mask_steps[2] + key * p.mask_steps[3];
      if (!p.mask_shows)
        to[i] += T::load(p.mask, at, on_gpu::Type{p.type});
      else if (static_cast<const unsigned char*>(p.mask)[at] == 0)
        to[i] = nothing();
    }
  }

  // What dropout multiplies a weight by. Word w of block b of 16 blocks is number 16 w + b of 64 keys (kept_weights.h).
  HEDDLE_DEVICE Sum factor(long long row, long long key) const {
    const auto in_group = static_cast<int>(key % 64);
    const unsigned long long at =
        p.start + static_cast<unsigned long long>(row * p.drawn_blocks_of_row + key / 64 * 16) +
        static_cast<unsigned long long>(in_group % 16);
    std::uint32_t words[4] = {static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at >> 32), 0, 0};
    auto key0 = static_cast<std::uint32_t>(p.seed), key1 = static_cast<std::uint32_t>(p.seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t first = std::uint64_t{0xD2511F53} * words[0],
                          second = std::uint64_t{0xCD9E8D57} * words[2];
      words[0] = static_cast<std::uint32_t>(second >> 32) ^ words[1] ^ key0;
      words[1] = static_cast<std::uint32_t>(second);
      words[2] = static_cast<std::uint32_t>(first >> 32) ^ words[3] ^ key1;
      words[3] = static_cast<std::uint32_t>(first);
      key0 += 0x9E3779B9;
      key1 += 0xBB67AE85;
    }
    const int word = in_group / 16;
    const std::uint32_t drawn = word < 2    ? (word == 0 ? words[0] : words[1])
                                : word == 2 ? words[2]
                                            : words[3];
    return drawn < p.drop_below ? Sum{0} : static_cast<Sum>(p.kept);
  }
  HEDDLE_DEVICE long long row_of(const Tile& tile, int row) const {
    return (tile.batch * p.heads + tile.head) * p.queries + tile.query + row;
  }
};

}  // namespace heddle::cuda_kernels
