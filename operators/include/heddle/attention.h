// Attention, and the positions of its rows. Floating dtypes; halves are computed as f32. All differentiable, twice too.
#pragma once

#include <cstdint>
#include <optional>

#include <heddle/ndarray.h>
#include <heddle/random.h>

namespace heddle {

struct AttentionOptions {
  bool causal = false;            // query i sees keys 0 .. S - T + i: the last query sees all
  std::optional<double> scale{};  // of the scores; nothing: 1 / sqrt(D)
  double dropout = 0;  // each weight is 0 with this probability; the rest are divided by 1 - dropout
  Generator* generator = nullptr;  // of dropout; null: the thread's own
};

// softmax(query key^T * scale + mask) value, for query (N, heads, T, D), key (N, kv_heads, S, D) and value (N, kv_heads, S, E):
// (N, heads, T, E). heads / kv_heads heads in a row share a key and a value (Ainslie et al., arXiv:2305.13245).
// mask broadcasts to (N, heads, T, S): where it is boolean, false hides a key; else it is added, and -infinity hides. Hidden keys and values
// have to be finite: they count times 0. A query that sees nothing gets 0. Memory is linear in T and S, in both passes (FlashAttention: Dao
// et al., arXiv:2205.14135). Views whose last axis is contiguous are read in place.
NDArray attention(const NDArray& query, const NDArray& key, const NDArray& value, const NDArray& mask = {},
                  const AttentionOptions& options = {}, Where where = Where::current());

struct RotaryOptions {
  double base = 10000;
  bool interleaved = false;  // pairs are features 2i and 2i + 1; else features i and i + D / 2
};

// Rotary embedding (Su et al., arXiv:2104.09864) of x (..., T, D), with an even D: pair i of the features of a row is rotated by the
// row's position times base^(-2i / D). positions: integers that broadcast to (..., T); undefined: 0 .. T - 1.
NDArray rotary(const NDArray& x, const NDArray& positions = {}, const RotaryOptions& options = {},
               Where where = Where::current());

}  // namespace heddle
