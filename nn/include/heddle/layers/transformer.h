// The block of transformers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <heddle/layers/attention.h>

namespace heddle {

struct TransformerBlockOptions {
  std::optional<std::int64_t> feed_forward{};  // features between the two linear maps; nothing: 4 * features
  std::optional<std::int64_t> kv_heads{};      // as in MultiHeadAttention
  bool causal = false, rotary = false;         // of the attention of x to itself
  bool memory = false;                         // whether there is an attention to a memory
  bool norm_first = true;           // normalises what attentions and maps take, not what they add to
  bool rms_norm = false;            // RmsNorm instead of LayerNorm
  std::string activation = "gelu";  // or gelu_tanh, relu, silu
  double dropout = 0;               // of attentions' weights, of activations, and of what is added to x
  bool bias = true;
  Init init = Init::xavier;
  Device device{};
};

// x (batch, length, features) plus its attention to itself, then plus that to a memory (batch, memory_length, features) if there is one,
// then plus two linear maps with an activation between them (Vaswani et al., arXiv:1706.03762; norm_first: Xiong et al.,
// arXiv:2002.04745):
//   block(x), block.run({x, memory, mask, memory_mask})[0]
// Modules inside, with PyTorch's names: self_attn, multihead_attn (of the memory), linear1, linear2, norm1, norm2, norm3 (with a memory).
// `generator` draws initial values alone; dropout draws from the calling thread's generator.
class TransformerBlock : public Layer {
 public:
  explicit TransformerBlock(const LayerCall& call);
  TransformerBlock(std::int64_t features, std::int64_t heads, const TransformerBlockOptions& options = {},
                   Generator& generator = default_generator(), Where where = Where::current());

  // What a call with the whole sequence so far gives for its last tokens, x, which are added to the cache of self_attn. Needs a
  // causal block; records no gradients and drops nothing. A call that throws leaves cache.length as it was.
  NDArray decode(const NDArray& x, AttentionCache& cache, const NDArray& memory = {},
                 Where where = Where::current());

 private:
  struct Call;
  std::vector<NDArray> compute_all(std::span<const NDArray> inputs) override;
  NDArray compute_block(const Call& call, double dropout);
};

}  // namespace heddle
