// The weights that dropout keeps, drawn again wherever they are wanted: they are nowhere in memory.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "families/attention/cpu/score_tile.h"

namespace heddle::cpu_kernels {

inline constexpr std::int64_t kDrawn = 64;  // weights that are drawn together: 16 blocks of four words

// The random words of 16 blocks of a generator (Philox 4x32: Salmon et al., SC'11), as philox() makes them: word w of block b is
// number 16 w + b.
inline void draw_words(std::uint64_t seed, std::uint64_t first_block, std::uint32_t (&words)[kDrawn]) {
  constexpr int kBlocks = kDrawn / 4;
  std::uint32_t *const a = words, *const b = a + kBlocks, *const c = b + kBlocks, *const d = c + kBlocks;
  for (int i = 0; i < kBlocks; ++i) {
    const std::uint64_t at = first_block + static_cast<std::uint64_t>(i);
    a[i] = static_cast<std::uint32_t>(at);
    b[i] = static_cast<std::uint32_t>(at >> 32);
    c[i] = d[i] = 0;
  }
  auto key0 = static_cast<std::uint32_t>(seed), key1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kBlocks; ++i) {
      const std::uint64_t first = std::uint64_t{0xD2511F53} * a[i], second = std::uint64_t{0xCD9E8D57} * c[i];
      a[i] = static_cast<std::uint32_t>(second >> 32) ^ b[i] ^ key0;
      b[i] = static_cast<std::uint32_t>(second);
      c[i] = static_cast<std::uint32_t>(first >> 32) ^ d[i] ^ key1;
      d[i] = static_cast<std::uint32_t>(first);
    }
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
}

// Writes what the weights of a tile are multiplied by, with kKeyBlock elements a row: 0, or 1 / (1 - dropout). tile.key is a multiple of
// kKeyBlock.
template <class T> void kept_weights(const AttentionProblem& problem, const ScoreTile& tile, T* factors) {
  static_assert(kKeyBlock % kDrawn == 0);
  const auto limit = static_cast<std::uint64_t>(std::llround(problem.dropout * 0x1p32));
  const T kept = problem.dropout < 1 ? static_cast<T>(1 / (1 - problem.dropout)) : T{0};
  for (std::int64_t i = 0; i < tile.queries; ++i) {
    const std::int64_t row = (tile.batch * problem.heads + tile.head) * problem.queries + tile.query + i;
    const std::int64_t first = row * problem.drawn_blocks_of_row() + tile.key / 4;
    for (std::int64_t j = 0; j < tile.keys; j += kDrawn) {
      alignas(64) std::uint32_t words[kDrawn];
      draw_words(problem.seed, problem.start + static_cast<std::uint64_t>(first + j / 4), words);
      T* const to = factors + i * kKeyBlock + j;
      for (std::int64_t k = 0; k < kDrawn; ++k) to[k] = words[k] < limit ? T{0} : kept;
    }
  }
}

}  // namespace heddle::cpu_kernels
