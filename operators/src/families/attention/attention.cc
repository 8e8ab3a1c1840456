#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <heddle/attention.h>
#include <heddle/elementwise_math.h>
#include <heddle/matmul.h>
#include <heddle/multiply_adds.h>
#include <heddle/number_text.h>
#include <heddle/rearrange.h>
#include <heddle/reduce.h>
#include <heddle/shape_ops.h>

#include "autograd/record.h"
#include "core/autocast.h"
#include "core/operator.h"
#include "core/operator_table.h"
#include "families/attention/kernels.h"

namespace heddle {

using namespace operators_detail;

namespace {

void check_mask(const NDArray& query, const NDArray& mask, const Shape& scores) {
  check_arrays("attention", {&query, &mask});
  const Shape& shape = mask.shape();
  bool fits = shape.size() <= 4;
  for (int i = 1; fits && i <= shape.size(); ++i)
    fits = shape[shape.size() - i] == 1 || shape[shape.size() - i] == scores[4 - i];
  if (fits && (mask.dtype() == DType::boolean || mask.dtype() == query.dtype())) return;
  throw InvalidArgument("attention: mask is " + std::string(name_of(mask.dtype())) + " " + shape.to_string() +
                        "; want bool or " + name_of(query.dtype()) + " that broadcasts to " +
                        scores.to_string());
}

AttentionProblem checked_problem(const AttentionInputs& in, const AttentionOptions& options) {
  check_arrays("attention", {&in.query, &in.key, &in.value});
  check_floating("attention", in.query);
  const Shape &q = in.query.shape(), &k = in.key.shape(), &v = in.value.shape();
  const bool axes = q.size() == 4 && k.size() == 4 && v.size() == 4;
  if (!axes || k[0] != q[0] || v[0] != q[0] || k[1] < 1 || v[1] != k[1] || q[1] % k[1] != 0 || k[3] != q[3] ||
      v[2] != k[2])
    throw InvalidArgument("attention: query is " + q.to_string() + ", key " + k.to_string() + ", value " +
                          v.to_string() +
                          "; want (N, heads, T, D), (N, kv_heads, S, D), (N, kv_heads, S, E), where kv_heads "
                          "divides heads");
  if (in.key.dtype() != in.query.dtype() || in.value.dtype() != in.query.dtype())
    throw InvalidArgument(std::string("attention: query is ") + name_of(in.query.dtype()) + ", key " +
                          name_of(in.key.dtype()) + ", value " + name_of(in.value.dtype()) +
                          "; want one dtype");
  if (in.mask.defined()) check_mask(in.query, in.mask, {q[0], q[1], q[2], k[2]});
  if (options.scale && !std::isfinite(*options.scale))
    throw InvalidArgument("attention: scale is " + number_text(*options.scale) + "; want a finite number");
  if (!(options.dropout >= 0 && options.dropout <= 1))
    throw InvalidArgument("attention: dropout is " + number_text(options.dropout) + "; want 0 to 1");
  const double scale = options.scale ? *options.scale
                       : q[3] == 0   ? 1
                                     : 1 / std::sqrt(static_cast<double>(q[3]));
  AttentionProblem problem{.batch = q[0],
                           .heads = q[1],
                           .kv_heads = k[1],
                           .queries = q[2],
                           .keys = k[2],
                           .features = q[3],
                           .value_features = v[3],
                           .causal = options.causal,
                           .scale = scale,
                           .dropout = options.dropout,
                           .seed = 0,
                           .start = 0};
  if (options.dropout > 0) {
    Generator& generator = options.generator ? *options.generator : default_generator();
    const std::int64_t blocks = q[0] * q[1] * q[2] * problem.drawn_blocks_of_row();
    problem.draw = generator.draw(static_cast<std::uint64_t>(blocks));
  }
  return problem;
}

// x itself, detached, if its rows are contiguous, as the kernels need; else a copy.
NDArray with_rows(const NDArray& x) {
  const NDArray plain = x.detach();
  const std::int64_t rows = x.shape()[2], features = x.shape()[3];
  const bool contiguous_rows = (features < 2 || x.strides()[3] == 1) &&
                               (rows < 2 || x.strides()[2] >= std::max<std::int64_t>(1, features));
  return contiguous_rows ? plain : plain.contiguous();
}

// A view of a mask with four axes.
NDArray four_axes(const NDArray& mask) {
  if (!mask.defined()) return mask;
  Shape shape = Dims::filled(4, 1);
  Strides strides = Dims::filled(4, 0);
  for (int from = mask.ndim() - 1, to = 3; from >= 0; --from, --to) {
    shape[to] = mask.shape()[from];
    strides[to] = mask.strides()[from];
  }
  const NDArray plain = mask.detach();
  return plain.view(shape, strides, plain.offset());
}

// The number of pairs of a query and a key that it may see.
std::int64_t pairs_of(const AttentionProblem& p) {
  std::int64_t pairs = 0;
  for (std::int64_t query = 0; query < p.queries; ++query) pairs += p.visible(query);
  return p.batch * p.heads * pairs;
}

NDArray dropout_factors(const AttentionProblem& p, const NDArray& like) {
  const NDArray factors = make_result(like, {p.batch, p.heads, p.queries, p.keys}, like.dtype());
  auto* kernel = kernel_for<AttentionDropoutKernel>("attention_dropout", like);
  array_push("attention_dropout", {}, {factors},
             [=](const KernelContext& context) { kernel(context, p.in_op(), factors); });
  return factors;
}

// Gradients composed of operators, which a tape can record; those of halves in f32. The heads that share a key have an axis of
// their own.
std::vector<NDArray> attention_by_operators(const AttentionProblem& p, const AttentionInputs& given,
                                            const NDArray& given_grad, bool of_mask) {
  const NDArray grad = wide(given_grad);
  const AttentionInputs in{wide(given.query), wide(given.key), wide(given.value), wide(given.mask)};
  const EngineScope scope(grad.engine());
  const std::int64_t group = p.group();
  const auto of_heads = [&](const NDArray& x) {
    return reshape(x, {p.batch, p.kv_heads, group, p.queries, x.shape()[3]});
  };
  const NDArray q = of_heads(in.query), g = of_heads(grad), k = expand_dims(in.key, 2),
                v = expand_dims(in.value, 2);
  NDArray scores = reshape(matmul(q, swapaxes(k, -1, -2)) * p.scale, {p.batch, p.heads, p.queries, p.keys});
  const double hidden = -std::numeric_limits<double>::infinity();
  if (in.mask.defined())
    scores = in.mask.dtype() == DType::boolean ? where(in.mask, scores, hidden) : scores + in.mask;
  if (p.causal) {
    const NDArray all = ones({p.queries, p.keys}, DType::boolean, grad.device());
    scores = where(tril(all, p.keys - p.queries), scores, hidden);
  }
  NDArray weight = zeros_like(scores);
  if (p.keys > 0) {
    const NDArray most = max(scores.detach(), {-1}, true);
    const NDArray powers = exp(scores - where(most == hidden, 0.0, most)), total = sum(powers, {-1}, true);
    weight = powers / where(total == 0, 1.0, total);
  }
  const Shape by_group{p.batch, p.kv_heads, group, p.queries, p.keys};
  const NDArray w = reshape(weight, by_group);
  NDArray used = w, of_weight = matmul(g, swapaxes(v, -1, -2));
  if (p.dropout > 0) {
    const NDArray factors = reshape(dropout_factors(p, grad), by_group);
    used = w * factors;
    of_weight = of_weight * factors;
  }
  const NDArray of_scores = w * (of_weight - sum(w * of_weight, {-1}, true)), scaled = of_scores * p.scale;
  std::vector<NDArray> gradients{reshape(matmul(scaled, k), in.query.shape()),
                                 sum(matmul(swapaxes(scaled, -1, -2), q), {2}),
                                 sum(matmul(swapaxes(used, -1, -2), g), {2})};
  if (of_mask) gradients.push_back(sum_to_shape(reshape(of_scores, scores.shape()), in.mask.shape()));
  for (NDArray& gradient : gradients) gradient = cast(gradient, given_grad.dtype());
  return gradients;
}

// Which gradients are wanted.
struct WantedOfAttention {
  bool query, key, value, mask;
};

std::vector<NDArray> push_attention_backward(const AttentionProblem& p, const AttentionInputs& in,
                                             const AttentionResult& result, const NDArray& mask,
                                             WantedOfAttention wanted) {
  const NDArray& g = result.g;
  const auto made = [&](bool on, const NDArray& like) {
    return on ? make_result(g, like.shape(), g.dtype()) : NDArray();
  };
  const AttentionGradients gradients{made(wanted.query, in.query), made(wanted.key, in.key),
                                     made(wanted.value, in.value),
                                     wanted.mask ? make_gradient(3, mask) : NDArray()};
  std::vector<NDArray> reads{in.query, in.key, in.value, result.y, result.softmax, g}, writes;
  if (in.mask.defined()) reads.push_back(in.mask);
  for (const NDArray& one : {gradients.query, gradients.key, gradients.value, gradients.mask})
    if (one.defined()) writes.push_back(one);
  const bool of_scores = wanted.query || wanted.key;
  MultiplyAdds::add(pairs_of(p) * (p.features * (1 + wanted.query + wanted.key) +
                                   p.value_features * (of_scores + wanted.value)));
  auto* kernel = kernel_for<AttentionBackwardKernel>("attention_backward", g);
  push_op("attention_backward", reads, writes,
          recordable([=](const KernelContext& context) { kernel(context, p.in_op(), in, result, gradients); },
                     p.dropout == 0));
  std::vector<NDArray> all{gradients.query, gradients.key, gradients.value};
  if (in.mask.defined() && in.mask.dtype() != DType::boolean) all.push_back(gradients.mask);
  return all;
}

// Arguments are checked, and of one dtype.
NDArray computed_attention(const AttentionProblem& p, const AttentionInputs& in) {
  const AttentionInputs values{with_rows(in.query), with_rows(in.key), with_rows(in.value),
                               four_axes(in.mask)};
  NDArray y = make_result(in.query, {p.batch, p.heads, p.queries, p.value_features}, in.query.dtype());
  const DType of_sums = is_half(in.query.dtype()) ? DType::f32 : in.query.dtype();
  const NDArray softmax = make_result(in.query, {p.batch, p.heads, p.queries, 2}, of_sums);
  MultiplyAdds::add(pairs_of(p) * (p.features + p.value_features));
  auto* kernel = kernel_for<AttentionKernel>("attention", in.query);
  std::vector<NDArray> reads{values.query, values.key, values.value};
  if (values.mask.defined()) reads.push_back(values.mask);
  push_op("attention", reads, std::vector<NDArray>{y, softmax},
          recordable([=, y = y.detach()](
                         const KernelContext& context) { kernel(context, p.in_op(), values, y, softmax); },
                     p.dropout == 0));
  const bool adds = in.mask.defined() && in.mask.dtype() != DType::boolean;
  const NDArray& mask = adds ? in.mask : in.query;
  if (!recording({&in.query, &in.key, &in.value, &mask})) return y;
  const WantedOfAttention wanted{requires_grad(in.query), requires_grad(in.key), requires_grad(in.value),
                                 adds && requires_grad(in.mask)};
  const AttentionInputs kept{save_for_backward(in.query), save_for_backward(in.key),
                             save_for_backward(in.value),
                             in.mask.defined() ? save_for_backward(in.mask) : in.mask};
  const NDArray of_y = save_for_backward(y);
  std::vector<NDArray> inputs{in.query, in.key, in.value}, saved{kept.query, kept.key, kept.value, of_y};
  if (adds) inputs.push_back(in.mask);
  if (in.mask.defined()) saved.push_back(kept.mask);
  record_op("attention", y, std::move(inputs), std::move(saved), [=](const NDArray& grad) {
    if (differentiating_gradient()) return attention_by_operators(p, kept, grad, adds);
    return push_attention_backward(p, values, {of_y.detach(), softmax, with_rows(grad)}, kept.mask, wanted);
  });
  return y;
}

}  // namespace

NDArray attention(const NDArray& query, const NDArray& key, const NDArray& value, const NDArray& mask,
                  const AttentionOptions& options, Where where) {
  const CallSite site(where);
  AttentionInputs in{query, key, value, mask};
  if (mixes_dtypes()) {
    check_arrays("attention", {&query, &key, &value});
    const DType dtype = product_dtype({&query, &key, &value});
    for (NDArray* array : {&in.query, &in.key, &in.value}) *array = cast(*array, dtype);
    if (mask.defined() && is_floating(mask.dtype())) in.mask = cast(mask, dtype);
  }
  return computed_attention(checked_problem(in, options), in);
}

HEDDLE_OPERATORS(attention) {
  table.family("Attention");
  table.add(
      "attention",
      +[](const NDArray& query, const NDArray& key, const NDArray& value, const NDArray& mask, bool causal,
          std::optional<double> scale, double dropout, Generator& generator, Where where) {
        return attention(query, key, value, mask,
                         {.causal = causal, .scale = scale, .dropout = dropout, .generator = &generator},
                         where);
      },
      {"softmax(query @ key^T * scale + mask) @ value for query (N, heads, T, D), key (N, kv_heads, S, "
       "D) and value (N, kv_heads, S, E). A mask that is boolean shows keys, one that is floating is "
       "added; with `causal` the last query sees all keys, each before it one less. `scale` None: "
       "1 / sqrt(D). `dropout` makes weights 0 with this probability and divides the rest by 1 - dropout.",
       {{"query", DTypes::floating},
        {"key", DTypes::floating},
        {"value", DTypes::floating},
        {"mask", kNone},
        {"causal", false},
        {"scale", kNone},
        {"dropout", 0.0},
        {"generator", kNone}},
       "that of query",
       kDifferentiable});
}

}  // namespace heddle
