// The layer of attention, and what it keeps of a sequence that is made token by token.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <heddle/creation.h>
#include <heddle/layer.h>
#include <heddle/random.h>

namespace heddle {

// The keys and values (batch, kv_heads, capacity, features / heads) of the first `length` tokens of sequences. Empty at first; the layer
// makes the arrays, and larger ones when they are full. Belongs to the caller, and is for one layer and one thread at a time. A copy of the
// struct shares the arrays, into which decode() writes: two continuations of one sequence need copies of `key` and `value` as well.
struct AttentionCache {
  NDArray key{}, value{};
  std::int64_t length = 0;
};

struct MultiHeadAttentionOptions {
  std::optional<std::int64_t> kv_heads{};  // heads of keys and values; nothing: `heads`
  bool bias = true;
  bool causal = false;  // a token sees those before it, and itself
  bool rotary = false;  // rotates queries and keys by their positions, see rotary() of heddle/attention.h
  double dropout = 0;   // of weights, in training; drawn from the calling thread's generator
  Init init = Init::xavier;
  Device device{};
};

// Attention of x (batch, length, features) to itself, or to a memory (batch, memory_length, features):
//   layer(x), layer.run({x, memory, mask})[0]
// mask is that of attention(), of heddle/attention.h. Parameters, with PyTorch's names: in_proj_weight and in_proj_bias, whose rows are
// those of queries, keys and values; out_proj.weight and out_proj.bias. `generator` draws their initial values alone.
class MultiHeadAttention : public Layer {
 public:
  explicit MultiHeadAttention(const LayerCall& call);
  MultiHeadAttention(std::int64_t features, std::int64_t heads, const MultiHeadAttentionOptions& options = {},
                     Generator& generator = default_generator(), Where where = Where::current());

  // What a call with the whole sequence so far gives for its last tokens, x (batch, length, features), which are added to the
  // cache. Needs a causal layer; records no gradients and drops nothing.
  NDArray decode(const NDArray& x, AttentionCache& cache, Where where = Where::current());

 private:
  struct Heads {
    NDArray query, key, value;  // (batch, heads or kv_heads, length, features / heads)
  };
  std::vector<NDArray> compute_all(std::span<const NDArray> inputs) override;
  Heads project(const NDArray& x, const NDArray& memory, std::int64_t position) const;
  NDArray attend(const Heads& heads, const NDArray& mask, double dropout);
};

}  // namespace heddle
