#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include <heddle/array_error.h>
#include <heddle/attention.h>
#include <heddle/autograd.h>
#include <heddle/layers/attention.h>
#include <heddle/layers/dense.h>
#include <heddle/matmul.h>
#include <heddle/number_text.h>
#include <heddle/shape_ops.h>

#include "layers/layer_table.h"

namespace heddle {

using namespace nn_detail;

namespace {

// Adds the size `projected`: the rows of queries, keys and values in the first weight.
LayerCall with_projected_size(LayerCall call) {
  const auto features = std::get<std::int64_t>(call.value("features")),
             heads = std::get<std::int64_t>(call.value("heads"));
  const OperatorValue& given = call.value("kv_heads");
  const std::int64_t kv_heads = given.is_none() ? heads : std::get<std::int64_t>(given);
  const auto refuse = [&](const char* name, std::int64_t value, const std::string& wanted) {
    throw InvalidArgument(call.info->name + ": " + name + " is " + std::to_string(value) + "; want " +
                          wanted);
  };
  ndarray_detail::in_name_of(call.info->name.c_str(), [&] { element_count({3, features, features}); });
  if (features % heads != 0) refuse("features", features, "a multiple of heads, " + std::to_string(heads));
  if (heads % kv_heads != 0) refuse("kv_heads", kv_heads, "a divisor of heads, " + std::to_string(heads));
  call.sizes.emplace_back("projected", features + 2 * kv_heads * (features / heads));
  return call;
}

// Entries begin .. end - 1 of the first axis; undefined stays undefined.
NDArray rows_of(const NDArray& x, std::int64_t begin, std::int64_t end) {
  return x.defined() ? x.slice(0, {begin, end}) : x;
}

// The last axis of x (batch, length, rows) as heads: (batch, rows / size, length, size), a view.
NDArray as_heads(const NDArray& x, std::int64_t size) {
  const Shape& shape = x.shape();
  return transpose(reshape(x, {shape[0], shape[1], shape[2] / size, size}), {0, 2, 1, 3});
}

// Throws unless the cache is empty, or its arrays hold `length` tokens of keys and values such as these.
void check_cache(const Layer& layer, const AttentionCache& cache, const NDArray& key) {
  const auto refuse = [&](const std::string& what) {
    throw InvalidArgument(layer.to_string() + ": decode: the cache" + what);
  };
  const bool empty = !cache.key.defined() && !cache.value.defined();
  if (cache.length < 0 || (empty && cache.length > 0))
    refuse(" has length " + std::to_string(cache.length) + (empty ? " and no arrays" : ""));
  if (empty) return;
  for (const auto& [name, array] : {std::pair("key", cache.key), std::pair("value", cache.value)}) {
    const std::string wanted = std::string("; want ") + name_of(key.dtype()) + " (" +
                               std::to_string(key.shape()[0]) + ", " + std::to_string(key.shape()[1]) +
                               ", capacity, " + std::to_string(key.shape()[3]) + ")";
    if (!array.defined()) refuse(std::string("'s ") + name + " is undefined" + wanted);
    Shape shape = array.shape();
    const bool axes = shape.size() == 4;
    const std::int64_t capacity = axes ? shape[2] : 0;
    if (axes) shape[2] = key.shape()[2];
    if (shape != key.shape() || array.dtype() != key.dtype())
      refuse(std::string("'s ") + name + " is " + name_of(array.dtype()) + " " + array.shape().to_string() +
             wanted);
    if (capacity < cache.length || capacity != cache.key.shape()[2])
      refuse(std::string("'s ") + name + " has room for " + std::to_string(capacity) +
             " tokens, its key for " + std::to_string(cache.key.shape()[2]) + ", its length is " +
             std::to_string(cache.length));
  }
}

// Makes room for `more` tokens.
void reserve(AttentionCache& cache, const NDArray& key, std::int64_t more) {
  const std::int64_t wanted = cache.length + more;
  const std::int64_t capacity = cache.key.defined() ? cache.key.shape()[2] : 0;
  if (wanted <= capacity) return;
  Shape shape = key.shape();
  shape[2] = std::max(wanted, 2 * capacity);
  const EngineScope scope(key.engine());
  for (NDArray* const array : {&cache.key, &cache.value}) {
    const NDArray larger(shape, key.dtype(), key.device());
    if (cache.length > 0) larger.slice(2, {0, cache.length}).assign(array->slice(2, {0, cache.length}));
    *array = larger;
  }
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(const LayerCall& call) : Layer(with_projected_size(call)) {
  const double dropout = real("dropout");
  if (!(dropout >= 0 && dropout < 1))
    throw InvalidArgument("MultiHeadAttention: dropout is " + number_text(dropout) + "; want 0 to below 1");
  if (boolean("rotary") && integer("features") / integer("heads") % 2 != 0)
    throw InvalidArgument("MultiHeadAttention: a head has " +
                          std::to_string(integer("features") / integer("heads")) +
                          " features; rotary wants an even number");
  (void)child("out_proj", make_dense(call, integer("features"), integer("features")));
}

MultiHeadAttention::MultiHeadAttention(std::int64_t features, std::int64_t heads,
                                       const MultiHeadAttentionOptions& options, Generator& generator,
                                       Where where)
    : MultiHeadAttention(
          call_of("MultiHeadAttention",
                  {features, heads, optional_value(options.kv_heads), options.bias, options.causal,
                   options.rotary, options.dropout, init_value(options.init), options.device, &generator},
                  where)) {}

// The key and the value are those of the memory if there is one. `position`: that of the first token.
MultiHeadAttention::Heads MultiHeadAttention::project(const NDArray& x, const NDArray& memory,
                                                      std::int64_t position) const {
  const std::int64_t heads = integer("heads"), features = integer("features"), size = features / heads;
  const NDArray weight = array("in_proj_weight"), bias = array("in_proj_bias");
  const std::int64_t rows = weight.shape()[0], kv_heads = (rows - features) / size / 2;
  if (memory.defined()) {
    if (boolean("rotary")) refuse_input(memory, "nothing: the layer is rotary", "memory");
    if (memory.shape()[0] != x.shape()[0])
      refuse_input(memory,
                   "(" + std::to_string(x.shape()[0]) + ", memory_length, " + std::to_string(features) + ")",
                   "memory");
    const NDArray query = linear(x, rows_of(weight, 0, features), rows_of(bias, 0, features));
    const NDArray rest =
        as_heads(linear(memory, rows_of(weight, features, rows), rows_of(bias, features, rows)), size);
    return {as_heads(query, size), rest.slice(1, {0, kv_heads}), rest.slice(1, {kv_heads, 2 * kv_heads})};
  }
  const NDArray all = as_heads(linear(x, weight, bias), size);
  Heads made{all.slice(1, {0, heads}), all.slice(1, {heads, heads + kv_heads}),
             all.slice(1, {heads + kv_heads, heads + 2 * kv_heads})};
  if (!boolean("rotary")) return made;
  const EngineScope scope(x.engine());
  const NDArray positions =
      position == 0 ? NDArray() : arange(position, position + x.shape()[1], 1, DType::i64, x.device());
  return {rotary(made.query, positions), rotary(made.key, positions), made.value};
}

NDArray MultiHeadAttention::attend(const Heads& heads, const NDArray& mask, double dropout) {
  const NDArray y =
      attention(heads.query, heads.key, heads.value, mask, {.causal = boolean("causal"), .dropout = dropout});
  const Shape& shape = y.shape();
  const NDArray rows = reshape(transpose(y, {0, 2, 1, 3}), {shape[0], shape[2], shape[1] * shape[3]});
  return (*inside("out_proj"))(rows);
}

std::vector<NDArray> MultiHeadAttention::compute_all(std::span<const NDArray> inputs) {
  return {attend(project(inputs[0], inputs[1], 0), inputs[2], training() ? real("dropout") : 0)};
}

NDArray MultiHeadAttention::decode(const NDArray& x, AttentionCache& cache, Where where) {
  const auto body = [&] {
    if (!boolean("causal")) throw InvalidArgument(to_string() + ": decode() needs a causal layer");
    if (!x.defined() || x.ndim() != 3 || x.shape()[2] != integer("features"))
      throw InvalidArgument(to_string() + ": decode: the input is " +
                            (x.defined() ? x.shape().to_string() : "undefined") +
                            "; want (batch, length, features)");
    if (cache.key.defined() && cache.key.shape()[0] != x.shape()[0])
      throw InvalidArgument(to_string() + ": decode: the cache is of " +
                            std::to_string(cache.key.shape()[0]) + " sequences, the input of " +
                            std::to_string(x.shape()[0]));
    const NoGrad no_grad;
    Heads heads = project(x, {}, cache.length);
    check_cache(*this, cache, heads.key);
    if (x.shape()[1] == 0) return attend(heads, {}, 0);
    const std::int64_t length = cache.length + x.shape()[1];
    reserve(cache, heads.key, x.shape()[1]);
    cache.key.slice(2, {cache.length, length}).assign(heads.key);
    cache.value.slice(2, {cache.length, length}).assign(heads.value);
    heads.key = cache.key.slice(2, {0, length});
    heads.value = cache.value.slice(2, {0, length});
    const NDArray y = attend(heads, {}, 0);
    cache.length = length;
    return y;
  };
  return call({x, cache.key, cache.value}, body, where);
}

HEDDLE_LAYERS(attention) {
  table.family("Attention");
  ArgumentInfo init = init_argument();
  init.default_value = std::string("xavier");
  table.add<MultiHeadAttention>(
      {.name = "MultiHeadAttention",
       .documentation =
           "Attention of x to itself or to a memory. Its `projected` rows of queries, keys and values are "
           "features + 2 * kv_heads * features / heads; kv_heads None: heads. Inside is out_proj, "
           "Dense(features, features). `dropout` is that of weights, drawn from the calling thread's "
           "generator; "
           "`generator` draws initial values alone.",
       .arguments = {size_argument("features"), size_argument("heads"), size_or_none("kv_heads"),
                     switch_argument("bias", true), switch_argument("causal", false),
                     switch_argument("rotary", false), real_argument("dropout", 0), init, device_argument(),
                     generator_argument()},
       .arrays = {weight_array("in_proj_weight", "(projected, features)"),
                  zeros_array("in_proj_bias", "(projected)", "bias")},
       .input = "(batch, length, features)",
       .output = "(batch, length, features)",
       .more_inputs = {{"memory", "(batch, memory_length, features)", "what x looks at instead of itself"},
                       {"mask", "",
                        "broadcasts to (batch, heads, length, memory_length): boolean, false hides; or "
                        "floating, added to scores"}}});
}

}  // namespace heddle
