// MultiHeadAttention and TransformerBlock: against the same composed of operators, and token by token.
#include <cmath>
#include <memory>
#include <message_of.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/layers.h>
#include <heddle/ops.h>

using namespace heddle;
using heddle::test::message_of;

namespace {

// A layer from which parts can be removed, as a class of the user's may do.
template <class L> struct Opened : L {
  using L::L;
  using L::remove;
};

NDArray normal(const Shape& shape, std::uint64_t seed) { return Generator(seed).normal(shape); }

void check_close(const NDArray& a, const NDArray& b, double tolerance = 2e-5) {
  REQUIRE(a.shape() == b.shape());
  const std::vector<float> x = contiguous(a).to_vector<float>(), y = contiguous(b).to_vector<float>();
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = std::abs(x[i] - y[i]) / (1 + std::abs(y[i]));
    worst = error <= worst ? worst : error;  // NaN is the worst
  }
  CHECK(worst <= tolerance);
}

// The parameters and buffers by name.
NDArray value_of(const Module& module, const std::string& name) {
  for (const Parameter& one : module.state())
    if (one.name == name) return one.value.detach();
  return {};
}

// Begins biases and norms at something other than 0 and 1.
void shake(Module& module) {
  std::uint64_t seed = 100;
  for (const Parameter& one : module.state()) {
    const NoGrad no_grad;
    one.value.assign(one.value + normal(one.value.shape(), ++seed) * 0.1);
  }
}

NDArray composed(const Module& layer, std::int64_t heads, std::int64_t kv_heads, const NDArray& x,
                 const NDArray& memory, const NDArray& mask, bool causal, bool rotates) {
  const std::int64_t features = x.shape()[2], size = features / heads, kv = kv_heads * size;
  const NDArray weight = value_of(layer, "in_proj_weight"), bias = value_of(layer, "in_proj_bias");
  const auto projected = [&](const NDArray& from, std::int64_t begin, std::int64_t end) {
    const NDArray y = linear(from, weight.slice(0, {begin, end}), bias.slice(0, {begin, end}));
    return swapaxes(reshape(y, {y.shape()[0], y.shape()[1], (end - begin) / size, size}), 1, 2);
  };
  const NDArray& other = memory.defined() ? memory : x;
  NDArray q = projected(x, 0, features), k = projected(other, features, features + kv),
          v = projected(other, features + kv, features + 2 * kv);
  if (rotates) {
    q = rotary(q);
    k = rotary(k);
  }
  k = repeat(k, heads / kv_heads, 1);
  v = repeat(v, heads / kv_heads, 1);
  NDArray scores = matmul(q, swapaxes(k, 2, 3)) / std::sqrt(static_cast<float>(size));
  const double hidden = -std::numeric_limits<double>::infinity();
  if (mask.defined()) scores = mask.dtype() == DType::boolean ? where(mask, scores, hidden) : scores + mask;
  if (causal)
    scores =
        where(tril(ones({x.shape()[1], other.shape()[1]}, DType::boolean), other.shape()[1] - x.shape()[1]),
              scores, hidden);
  const NDArray y = reshape(swapaxes(matmul(softmax(scores), v), 1, 2), x.shape());
  return linear(y, value_of(layer, "out_proj.weight"), value_of(layer, "out_proj.bias"));
}

std::vector<std::string> names_of(const Module& module) {
  std::vector<std::string> names;
  for (const Parameter& one : module.state()) names.push_back(one.name);
  return names;
}

// A block's result for each token of a sequence, given in pieces.
template <class L, class... Memory>
NDArray in_pieces(L& layer, const NDArray& x, const std::vector<std::int64_t>& ends,
                  const Memory&... memory) {
  AttentionCache cache;
  std::vector<NDArray> parts;
  std::int64_t begin = 0;
  for (const std::int64_t end : ends) {
    parts.push_back(layer.decode(x.slice(1, {begin, end}), cache, memory...));
    CHECK(cache.length == end);
    begin = end;
  }
  return concat(parts, 1);
}

}  // namespace

TEST_CASE("multi-head attention projects, attends and projects") {
  const NDArray x = normal({2, 7, 12}, 1), memory = normal({2, 5, 12}, 2);
  for (const std::int64_t kv_heads : {6, 3, 1}) {
    for (const bool causal : {false, true}) {
      MultiHeadAttention layer(12, 6, {.kv_heads = kv_heads, .causal = causal});
      shake(layer);
      CHECK(names_of(layer) ==
            std::vector<std::string>{"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"});
      CHECK(value_of(layer, "in_proj_weight").shape() == Shape{12 + 4 * kv_heads, 12});
      check_close(layer(x), composed(layer, 6, kv_heads, x, {}, {}, causal, false));
      const NDArray mask = normal({6, 7, 7}, 3), visible = arange(5) < 4;
      check_close(layer.run({x, NDArray(), mask})[0],
                  composed(layer, 6, kv_heads, x, {}, mask, causal, false));
      if (causal) continue;
      check_close(layer.run({x, memory})[0], composed(layer, 6, kv_heads, x, memory, {}, false, false));
      check_close(layer.run({x, memory, visible})[0],
                  composed(layer, 6, kv_heads, x, memory, visible, false, false));
    }
  }
  MultiHeadAttention rotating(12, 3, {.causal = true, .rotary = true});
  check_close(rotating(x), composed(rotating, 3, 3, x, {}, {}, true, true));
  MultiHeadAttention bare(12, 3, {.bias = false});
  CHECK(names_of(bare) == std::vector<std::string>{"in_proj_weight", "out_proj.weight"});
  CHECK(bare(x).shape() == x.shape());
  backward(sum(bare(x)));
  for (const Parameter& one : bare.parameters()) CHECK(grad(one.value).shape() == one.value.shape());
}

TEST_CASE("decoding with a cache gives what the whole sequence gives") {
  const NDArray x = normal({2, 9, 8}, 1), memory = normal({2, 4, 8}, 2);
  for (const bool rotates : {false, true}) {
    MultiHeadAttention layer(8, 4, {.kv_heads = 2, .causal = true, .rotary = rotates, .dropout = 0.5});
    layer.train(false);
    shake(layer);
    check_close(in_pieces(layer, x, {1, 2, 3, 4, 5, 6, 7, 8, 9}), layer(x));
    check_close(in_pieces(layer, x, {4, 4, 8, 9}), layer(x));
    TransformerBlock block(8, 2, {.causal = true, .rotary = rotates, .memory = true});
    shake(block);
    check_close(in_pieces(block, x, {1, 4, 9}, memory), block.run({x, memory})[0]);
  }
  MultiHeadAttention layer(8, 4, {.causal = true});
  AttentionCache cache{.key = zeros({2, 4, 16, 2}), .value = zeros({2, 4, 16, 2})};
  const NDArray memory_of_caller = cache.key;
  layer.decode(x, cache);
  CHECK(cache.key.storage() == memory_of_caller.storage());
  CHECK_FALSE(requires_grad(layer.decode(normal({2, 1, 8}, 3), cache)));
  CHECK(message_of<InvalidArgument>([&] {
          layer.decode(normal({1, 1, 8}, 3), cache);
        }).find("decode: the cache is of 2 sequences, the input of 1") != std::string::npos);
  CHECK(message_of<InvalidArgument>([&] { MultiHeadAttention(8, 4).decode(x, cache); }) ==
        "MultiHeadAttention(8, 4): decode() needs a causal layer");
}

TEST_CASE("a block adds attention and maps, normalised before or after") {
  const NDArray x = normal({2, 5, 8}, 1), memory = normal({2, 3, 8}, 2), mask = normal({5, 5}, 3);
  for (const bool norm_first : {false, true}) {
    for (const bool has_memory : {false, true}) {
      TransformerBlock block(
          8, 2, {.feed_forward = 6, .memory = has_memory, .norm_first = norm_first, .activation = "relu"});
      shake(block);
      std::vector<std::shared_ptr<Module>> parts;
      for (const Module::Child& one : block.children()) parts.push_back(one.module);
      REQUIRE(parts.size() == (has_memory ? 7 : 5));
      const std::size_t maps = has_memory ? 2 : 1, norms = maps + 2;
      NDArray y = x;
      const auto add = [&](std::size_t norm, const auto& part) {
        y = norm_first ? y + part((*parts[norms + norm])(y)) : (*parts[norms + norm])(y + part(y));
      };
      add(0, [&](const NDArray& z) { return parts[0]->run({z, NDArray(), mask})[0]; });
      if (has_memory) add(1, [&](const NDArray& z) { return parts[1]->run({z, memory})[0]; });
      add(maps, [&](const NDArray& z) { return (*parts[maps + 1])(relu((*parts[maps])(z))); });
      check_close(block.run({x, has_memory ? memory : NDArray(), mask})[0], y);
      backward(sum(block.run({x, has_memory ? memory : NDArray()})[0]));
      for (const Parameter& one : block.parameters()) CHECK(grad(one.value).defined());
    }
  }
  for (const char* const activation : {"gelu", "gelu_tanh", "silu"})
    CHECK(TransformerBlock(8, 2, {.rms_norm = true, .activation = activation})(x).shape() == x.shape());
  CHECK(names_of(TransformerBlock(8, 2)) ==
        std::vector<std::string>{"self_attn.in_proj_weight", "self_attn.in_proj_bias",
                                 "self_attn.out_proj.weight", "self_attn.out_proj.bias", "linear1.weight",
                                 "linear1.bias", "linear2.weight", "linear2.bias", "norm1.weight",
                                 "norm1.bias", "norm2.weight", "norm2.bias"});
}

TEST_CASE("attention's dropout is of training alone") {
  const NDArray x = normal({2, 5, 8}, 1);
  MultiHeadAttention layer(8, 2, {.dropout = 0.5});
  TransformerBlock block(8, 2, {.dropout = 0.5});
  for (Module* const one : {static_cast<Module*>(&layer), static_cast<Module*>(&block)}) {
    CHECK((*one)(x).to_vector<float>() != (*one)(x).to_vector<float>());
    one->train(false);
    CHECK((*one)(x).to_vector<float>() == (*one)(x).to_vector<float>());
  }
}

TEST_CASE("layers of attention print their arguments, and refuse what does not fit") {
  CHECK(MultiHeadAttention(8, 4, {.kv_heads = 2, .causal = true}).to_string() ==
        "MultiHeadAttention(8, 4, kv_heads 2, causal)");
  CHECK(TransformerBlock(8, 4, {.norm_first = false}).to_string() == "TransformerBlock(8, 4, no norm_first)");
  const auto why = [](auto f) { return message_of<InvalidArgument>(f); };
  CHECK(why([] { MultiHeadAttention(9, 4); }) ==
        "MultiHeadAttention: features is 9; want a multiple of heads, 4");
  CHECK(why([] { MultiHeadAttention(8, 4, {.kv_heads = 3}); }) ==
        "MultiHeadAttention: kv_heads is 3; want a divisor of heads, 4");
  CHECK(why([] { MultiHeadAttention(8, 4, {.dropout = 1}); }) ==
        "MultiHeadAttention: dropout is 1; want 0 to below 1");
  CHECK(why([] { MultiHeadAttention(12, 4, {.rotary = true}); }) ==
        "MultiHeadAttention: a head has 3 features; rotary wants an even number");
  CHECK(why([] {
          TransformerBlock(8, 2, {.activation = "erf"});
        }).find("TransformerBlock: activation is 'erf'") == 0);
  const NDArray x = normal({2, 5, 8}, 1);
  CHECK(why([&] {
          MultiHeadAttention(8, 2)(ones({5, 8}));
        }) == "MultiHeadAttention(8, 2): the input is f32 (5, 8), wanted is (batch, length, 8)");
  CHECK(why([&] {
          MultiHeadAttention(8, 2, {.rotary = true}).run({x, x});
        }).find("memory is f32 (2, 5, 8)") != std::string::npos);
  CHECK(why([&] { TransformerBlock(8, 2).run({x, x}); }) == "TransformerBlock(8, 2): made without a memory");
  CHECK(why([&] { TransformerBlock(8, 2, {.memory = true})(x); }) ==
        "TransformerBlock(8, 2, memory): memory is missing");
}

TEST_CASE("a layer of attention whose part was removed names it") {
  const NDArray x = normal({2, 5, 8}, 1);
  const auto why = [](auto f) { return message_of<InvalidArgument>(f); };
  for (const char* const part :
       {"self_attn", "multihead_attn", "linear1", "linear2", "norm1", "norm2", "norm3"}) {
    Opened<TransformerBlock> block(8, 2, {.memory = true});
    block.remove(part);
    CHECK(why([&] {
            block.run({x, x});
          }) == "TransformerBlock(8, 2, memory): has no '" + std::string(part) + "'; it was removed");
  }
  Opened<MultiHeadAttention> layer(8, 2), bare(8, 2);
  layer.remove("out_proj");
  CHECK(why([&] { layer(x); }) == "MultiHeadAttention(8, 2): has no 'out_proj'; it was removed");
  bare.remove("in_proj_weight");
  CHECK(why([&] { bare(x); }) == "MultiHeadAttention(8, 2): has no 'in_proj_weight'; it was removed");
}

TEST_CASE("decoding that fails leaves the cache, which has to fit") {
  const NDArray x = normal({2, 3, 8}, 1);
  const auto why = [](auto f) { return message_of<InvalidArgument>(f); };
  Opened<TransformerBlock> block(8, 2, {.causal = true});
  AttentionCache of_block;
  block.decode(x, of_block);
  block.remove("linear1");
  CHECK(why([&] { block.decode(x, of_block); }).find("has no 'linear1'") != std::string::npos);
  CHECK(of_block.length == 3);

  MultiHeadAttention layer(8, 2, {.causal = true});
  const auto refused = [&](AttentionCache cache) {
    const std::int64_t length = cache.length;
    const std::string message = why([&] { layer.decode(x, cache); });
    CHECK(cache.length == length);
    return message;
  };
  const std::string begin = "MultiHeadAttention(8, 2, causal): decode: the cache";
  const NDArray room = zeros({2, 2, 6, 4});
  CHECK(refused({.length = 2}) == begin + " has length 2 and no arrays");
  CHECK(refused({room, room.copy(), -1}) == begin + " has length -1");
  CHECK(refused({room, NDArray(), 2}) == begin + "'s value is undefined; want f32 (2, 2, capacity, 4)");
  CHECK(refused({room, zeros({2, 2, 6, 4}, DType::f64), 2}) ==
        begin + "'s value is f64 (2, 2, 6, 4); want f32 (2, 2, capacity, 4)");
  CHECK(refused({zeros({2, 4, 6, 2}), room, 2}) ==
        begin + "'s key is f32 (2, 4, 6, 2); want f32 (2, 2, capacity, 4)");
  CHECK(refused({room, room.copy(), 7}) ==
        begin + "'s key has room for 6 tokens, its key for 6, its length is 7");
  CHECK(refused({room, zeros({2, 2, 3, 4}), 2}) ==
        begin + "'s value has room for 3 tokens, its key for 6, its length is 2");
  AttentionCache empty;
  CHECK(layer.decode(zeros({2, 0, 8}), empty).shape() == Shape{2, 0, 8});
  CHECK(empty.length == 0);
  CHECK(layer.decode(x, empty).shape() == Shape{2, 3, 8});
  CHECK(layer.decode(zeros({2, 0, 8}), empty).shape() == Shape{2, 0, 8});
  CHECK(empty.length == 3);
}

TEST_CASE("layers of attention refuse sizes and inputs that do not fit, by their own name") {
  const NDArray x = normal({2, 5, 8}, 1);
  const auto why = [](auto f) { return message_of<InvalidArgument>(f); };
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  CHECK(why([&] { MultiHeadAttention(kHuge, 1); }).find("MultiHeadAttention: shape (3, ") == 0);
  CHECK(why([&] { TransformerBlock(kHuge, 1); }).find("TransformerBlock: shape (3, ") == 0);
  CHECK(why([&] { TransformerBlock(8, 2, {.dropout = 1.5}); }) ==
        "TransformerBlock: dropout is 1.5; want 0 to below 1");
  CHECK(why([&] {
          TransformerBlock(8, 2).run({x, NDArray(), NDArray(), ones({5, 5})});
        }) == "TransformerBlock(8, 2): memory_mask is given; made without a memory");
  CHECK(why([&] {
          MultiHeadAttention(8, 2).run({x, ones({3, 4, 8})});
        }) == "MultiHeadAttention(8, 2): memory is f32 (3, 4, 8), wanted is (2, memory_length, 8)");
  CHECK(why([&] {
          TransformerBlock(8, 2, {.memory = true}).run({x, ones({3, 4, 8})});
        }).find("memory is f32 (3, 4, 8)") != std::string::npos);
}
