// Kernel types of attention and of rotary embedding.
#pragma once

#include <cstdint>

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>
#include <heddle/random.h>

namespace heddle {

struct AttentionProblem {
  std::int64_t batch, heads, kv_heads, queries, keys;
  std::int64_t features, value_features;  // length of a query or key, and of a value
  bool causal;
  double scale;
  double dropout;             // the probability with which a weight counts as 0
  std::uint64_t seed, start;  // of the generator's blocks that dropout draws; see in_op()
  RandomDraw draw{};

  // The problem with the blocks of this run of the op.
  AttentionProblem in_op() const {
    AttentionProblem now = *this;
    const RandomBlocks blocks = draw.blocks();
    now.seed = blocks.seed, now.start = blocks.start;
    return now;
  }
  std::int64_t group() const { return heads / kv_heads; }  // heads that share a key and a value
  // Blocks of random words of a query, of which 16 are drawn together.
  std::int64_t drawn_blocks_of_row() const { return (keys + 63) / 64 * 16; }
  // The number of keys that causality lets query `query` see. The last query sees all.
  std::int64_t visible(std::int64_t query) const {
    if (!causal) return keys;
    const std::int64_t count = keys - queries + query + 1;
    return count < 0 ? 0 : count;
  }
};

// Arrays of one floating dtype, whose rows are contiguous. The mask is undefined, boolean, or of that dtype; it has 4 axes, each of
// size 1 or that of (batch, heads, queries, keys), and any strides.
struct AttentionInputs {
  NDArray query, key, value, mask;
};

// y is contiguous; so is softmax (batch, heads, queries, 2), which is f32 for halves: the greatest score of a query, and 1 / the sum of the exponentials of its scores
// less the greatest. Their logarithms in one number would lose the sum beside a score of large magnitude. A query that sees nothing has 0, 0.
using AttentionKernel = void(const KernelContext& context, const AttentionProblem& problem,
                             const AttentionInputs& in, const NDArray& y, const NDArray& softmax);

// What the backward pass has of the forward pass, and the gradient g of y, with contiguous rows.
struct AttentionResult {
  NDArray y, softmax, g;
};

// Contiguous; those that are undefined are not wanted. That of the mask has the mask's shape.
struct AttentionGradients {
  NDArray query, key, value, mask;
};
using AttentionBackwardKernel = void(const KernelContext& context, const AttentionProblem& problem,
                                     const AttentionInputs& in, const AttentionResult& result,
                                     const AttentionGradients& gradients);

// Writes what dropout multiplies the weights (batch, heads, queries, keys) by; factors is contiguous, f32 or f64.
using AttentionDropoutKernel = void(const KernelContext& context, const AttentionProblem& problem,
                                    const NDArray& factors);

struct RotaryProblem {
  double base;
  bool interleaved;
  bool backwards;  // rotates by the opposite angles
};

// x (..., T, D) has contiguous rows; y is contiguous. positions: i64, contiguous, as many axes as x but one, each of x's size or 1.
using RotaryKernel = void(const KernelContext& context, const RotaryProblem& problem, const NDArray& x,
                          const NDArray& positions, const NDArray& y);

}  // namespace heddle
