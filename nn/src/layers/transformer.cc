#include <memory>
#include <string>
#include <utility>

#include <heddle/activations.h>
#include <heddle/array_error.h>
#include <heddle/autograd.h>
#include <heddle/dropout.h>
#include <heddle/elementwise.h>
#include <heddle/layers/dense.h>
#include <heddle/layers/norm.h>
#include <heddle/layers/transformer.h>

#include "layers/layer_table.h"

namespace heddle {

using namespace nn_detail;

namespace {

// A layer of attention, of the block's arguments. What it refuses is the block's error.
MultiHeadAttention make_attention(const LayerCall& call, bool of_memory) {
  const auto unless_memory = [&](const char* name) {
    return OperatorValue(!of_memory && std::get<bool>(call.value(name)));
  };
  return ndarray_detail::in_name_of(call.info->name.c_str(), [&] {
    return MultiHeadAttention(
        call_of("MultiHeadAttention",
                {call.value("features"), call.value("heads"), call.value("kv_heads"), call.value("bias"),
                 unless_memory("causal"), unless_memory("rotary"), call.value("dropout"), call.value("init"),
                 call.value("device"), call.value("generator")},
                call.where));
  });
}

NDArray activated(const std::string& name, const NDArray& x) {
  if (name == "relu") return relu(x);
  if (name == "silu") return silu(x);
  return name == "gelu" ? gelu(x) : gelu_tanh(x);
}

}  // namespace

// The arrays of a call, and the cache of one that decodes.
struct TransformerBlock::Call {
  NDArray x, memory{}, mask{}, memory_mask{};
  AttentionCache* cache = nullptr;
};

TransformerBlock::TransformerBlock(const LayerCall& call) : Layer(call) {
  const bool memory = boolean("memory");
  const std::int64_t features = integer("features");
  const OperatorValue& given = call.value("feed_forward");
  (void)child("self_attn",
              make_attention(call, false));  // refuses a number of features whose square is too large
  if (memory) (void)child("multihead_attn", make_attention(call, true));
  const std::int64_t between = given.is_none() ? 4 * features : std::get<std::int64_t>(given);
  (void)child("linear1", make_dense(call, features, between));
  (void)child("linear2", make_dense(call, between, features));
  for (const char* const name : {"norm1", "norm2", "norm3"}) {
    if (name == std::string("norm3") && !memory) break;
    const OperatorValue& device = call.value("device");
    if (boolean("rms_norm"))
      (void)child(name, RmsNorm(call_of("RmsNorm", {features, 1e-6, device}, call.where)));
    else
      (void)child(name, LayerNorm(call_of("LayerNorm", {features, 1e-5, true, call.value("bias"), device},
                                          call.where)));
  }
}

TransformerBlock::TransformerBlock(std::int64_t features, std::int64_t heads,
                                   const TransformerBlockOptions& options, Generator& generator, Where where)
    : TransformerBlock(
          call_of("TransformerBlock",
                  {features, heads, optional_value(options.feed_forward), optional_value(options.kv_heads),
                   options.causal, options.rotary, options.memory, options.norm_first, options.rms_norm,
                   options.activation, options.dropout, options.bias, init_value(options.init),
                   options.device, &generator},
                  where)) {}

NDArray TransformerBlock::compute_block(const Call& call, double probability) {
  const bool norm_first = boolean("norm_first"), memory = boolean("memory");
  if (memory != call.memory.defined())
    throw InvalidArgument(to_string() + (memory ? ": memory is missing" : ": made without a memory"));
  if (!memory && call.memory_mask.defined())
    throw InvalidArgument(to_string() + ": memory_mask is given; made without a memory");
  const auto dropped = [&](const NDArray& x) {
    return probability > 0 ? dropout(x, probability, default_generator(), true) : x;
  };
  NDArray x = call.x;
  const auto add = [&](const char* name, const auto& part) {
    Module& norm = *inside(name);
    x = norm_first ? x + dropped(part(norm(x))) : norm(x + dropped(part(x)));
  };
  add("norm1", [&](const NDArray& y) {
    const std::shared_ptr<Module> attention = inside("self_attn");
    if (!call.cache) return attention->run({y, NDArray(), call.mask}).front();
    if (auto* const own = dynamic_cast<MultiHeadAttention*>(attention.get()))
      return own->decode(y, *call.cache);
    throw InvalidArgument(to_string() + ": decode() needs a MultiHeadAttention as self_attn");
  });
  if (memory)
    add("norm2", [&](const NDArray& y) {
      return inside("multihead_attn")->run({y, call.memory, call.memory_mask}).front();
    });
  add(memory ? "norm3" : "norm2", [&](const NDArray& y) {
    return (*inside("linear2"))(dropped(activated(text("activation"), (*inside("linear1"))(y))));
  });
  return x;
}

std::vector<NDArray> TransformerBlock::compute_all(std::span<const NDArray> inputs) {
  return {compute_block({inputs[0], inputs[1], inputs[2], inputs[3]}, training() ? real("dropout") : 0)};
}

NDArray TransformerBlock::decode(const NDArray& x, AttentionCache& cache, const NDArray& memory,
                                 Where where) {
  const auto body = [&] {
    const NoGrad no_grad;
    const std::int64_t length = cache.length;
    try {
      return compute_block({.x = x, .memory = memory, .cache = &cache}, 0);
    } catch (...) {
      cache.length = length;
      throw;
    }
  };
  return call({x, memory, cache.key, cache.value}, body, where);
}

HEDDLE_LAYERS(transformer) {
  table.family("Attention");
  ArgumentInfo init = init_argument();
  init.default_value = std::string("xavier");
  table.add<TransformerBlock>(
      {.name = "TransformerBlock",
       .documentation =
           "x plus its attention to itself, plus that to a memory if there is one, plus two linear maps with "
           "an activation between them. feed_forward, the features between the maps, is 4 * features for "
           "None. "
           "Inside are self_attn, multihead_attn (with `memory`), linear1, linear2, norm1, norm2 and norm3 "
           "(with `memory`). `generator` draws initial values alone; dropout draws from the calling thread's "
           "generator.",
       .arguments = {size_argument("features"),
                     size_argument("heads"),
                     size_or_none("feed_forward"),
                     size_or_none("kv_heads"),
                     switch_argument("causal", false),
                     switch_argument("rotary", false),
                     switch_argument("memory", false),
                     switch_argument("norm_first", true),
                     switch_argument("rms_norm", false),
                     {.name = "activation",
                      .kind = ArgumentKind::text,
                      .default_value = std::string("gelu"),
                      .choices = {"gelu", "gelu_tanh", "relu", "silu"}},
                     real_argument("dropout", 0),
                     switch_argument("bias", true),
                     init,
                     device_argument(),
                     generator_argument()},
       .input = "(batch, length, features)",
       .output = "(batch, length, features)",
       .more_inputs = {{"memory", "(batch, memory_length, features)", "what multihead_attn looks at"},
                       {"mask", "", "that of self_attn"},
                       {"memory_mask", "", "that of multihead_attn"}}});
}

}  // namespace heddle
