// The backward kernel of attention. It computes the weights of each tile again, from the scores and two numbers of each query (Dao,
// arXiv:2307.08691), so that its memory is linear in the number of queries and keys. Sums are added in an order that depends on
// shapes alone.
#include <algorithm>
#include <cstdint>
#include <vector>

#include <heddle/parallel.h>

#include "core/kernel_table.h"
#include "cpu/floating.h"
#include "cpu/scratch.h"
#include "cpu/vector_math.h"
#include "families/attention/cpu/kept_weights.h"
#include "families/attention/cpu/score_tile.h"

namespace heddle::cpu_kernels {
namespace {

constexpr std::int64_t kLeastTasks = 16;  // as far as there are blocks of keys
constexpr std::int64_t kSumGrain = 16384;

template <class T> T* memory_of(const NDArray& array) { return array.defined() ? array.data<T>() : nullptr; }

// S: the type of the arrays but softmax; T: that of softmax and of sums, which gradients of halves are narrowed from.
template <class S> class AttentionBackward {
 public:
  using T = ComputeType<S>;
  AttentionBackward(const AttentionProblem& problem, const AttentionInputs& in, const AttentionResult& result,
                    const AttentionGradients& gradients)
      : p_(problem),
        scores_(problem, in),
        query_(in.query),
        key_(in.key),
        value_(in.value),
        g_(result.g),
        softmax_(result.softmax.data<const T>()),
        query_sums_(gradients.query),
        key_sums_(gradients.key),
        value_sums_(gradients.value),
        query_grad_(query_sums_.data()),
        key_grad_(key_sums_.data()),
        value_grad_(value_sums_.data()),
        products_(static_cast<std::size_t>(rows())) {
    add_products(result.y.data<const S>());
  }

  void run() {
    compute();
    for (const Sums* sums : {&query_sums_, &key_sums_, &value_sums_}) sums->finish();
  }

  // The gradient of the mask, summed over what the mask is broadcast along.
  void mask(const NDArray& mask_grad, const Shape& shape) {
    S* const to = mask_grad.data<S>();
    const auto length = [&](int axis, std::int64_t block) {
      return shape[axis] == 1 ? 1 : blocks_of(shape[axis], block);
    };
    const std::int64_t down = length(2, kQueryBlock), across = length(3, kKeyBlock);
    parallel_for(shape[0] * shape[1] * down * across, 1, [&](std::int64_t begin, std::int64_t end) {
      const Scratch tiles(kTiles);
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t matrix = task / across / down;
        mask_tile(shape, {matrix / shape[1], matrix % shape[1], task / across % down, task % across},
                  tiles.as<T>(), to);
      }
    });
  }

 private:
  static constexpr std::int64_t kTile = kQueryBlock * kKeyBlock;               // elements
  static constexpr std::size_t kTiles = 3 * kTile * sizeof(T) + kTileRoom<S>;  // bytes

  // Memory in which a gradient is summed: that of the array, or other memory that finish() narrows into it.
  class Sums {
   public:
    explicit Sums(const NDArray& array)
        : array_(array),
          half_(array.defined() && is_half_type<S>),
          copy_(half_ ? static_cast<std::size_t>(array.size()) * sizeof(T) : 0) {}
    T* data() const { return half_ ? copy_.template as<T>() : array_.defined() ? array_.data<T>() : nullptr; }
    void finish() const {
      if constexpr (is_half_type<S>)
        if (half_) narrow_all(copy_.template as<const T>(), array_.data<S>(), array_.size());
    }

   private:
    const NDArray& array_;
    bool half_;
    Scratch copy_;
  };

  void compute() const {
    if (!query_grad_ && !key_grad_ && !value_grad_) return;
    const std::int64_t matrices = p_.batch * p_.kv_heads;
    if (matrices == 0) return;
    // The keys of a matrix are split if there are few matrices; each part then has a sum of its own for the gradient of the queries.
    const std::int64_t blocks = blocks_of(p_.keys, kKeyBlock),
                       wanted = std::clamp<std::int64_t>(blocks, 1, blocks_of(kLeastTasks, matrices)),
                       length = std::max<std::int64_t>(1, blocks_of(blocks, wanted)),
                       parts = std::max<std::int64_t>(1, blocks_of(blocks, length));
    const std::int64_t size = rows() * p_.features;
    const bool sums = query_grad_ && parts > 1;
    const Scratch scratch(sums ? static_cast<std::size_t>(parts * size) * sizeof(T) : 0);
    T* const query_grads = sums ? scratch.as<T>() : query_grad_;
    parallel_for(matrices * parts, 1, [&](std::int64_t begin, std::int64_t end) {
      const Scratch tiles(kTiles);
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t part = task % parts;
        T* const of_part = query_grads ? query_grads + part * size : nullptr;
        run_part(task / parts, part * length * kKeyBlock, std::min(p_.keys, (part + 1) * length * kKeyBlock),
                 of_part, tiles.as<T>());
      }
    });
    if (!sums) return;
    parallel_for(size, kSumGrain, [&](std::int64_t begin, std::int64_t end) {
      std::copy(query_grads + begin, query_grads + end, query_grad_ + begin);
      for (std::int64_t part = 1; part < parts; ++part)
        for (std::int64_t i = begin; i < end; ++i) query_grad_[i] += query_grads[part * size + i];
    });
  }

  // The part of an axis that a tile of the mask's gradient is of: all of it if the mask is broadcast along it.
  struct Part {
    Part(std::int64_t mask_size, std::int64_t size, std::int64_t index, std::int64_t block)
        : begin(mask_size == 1 ? 0 : index * block),
          end(mask_size == 1 ? size : std::min(size, begin + block)),
          broadcast(mask_size == 1) {}
    std::int64_t begin, end;
    bool broadcast;
  };

  std::int64_t rows() const { return p_.batch * p_.heads * p_.queries; }
  std::int64_t row(std::int64_t batch, std::int64_t head, std::int64_t query) const {
    return (batch * p_.heads + head) * p_.queries + query;
  }

  // The scalar product of each row of y with that of its gradient.
  void add_products(const S* y) {
    const std::int64_t width = p_.value_features, grain = kSumGrain / std::max<std::int64_t>(1, width) + 1;
    parallel_for(rows(), grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t matrix = i / p_.queries;
        const S* const g = g_.from(matrix / p_.heads, matrix % p_.heads, i % p_.queries).data;
        constexpr std::int64_t kLanes = 64 / sizeof(T);
        T lanes[kLanes] = {}, total = 0;
        std::int64_t e = 0;
        for (; e + kLanes <= width; e += kLanes)
          for (std::int64_t lane = 0; lane < kLanes; ++lane)
            lanes[lane] += static_cast<T>(g[e + lane]) * static_cast<T>(y[i * width + e + lane]);
        for (; e < width; ++e) total += static_cast<T>(g[e]) * static_cast<T>(y[i * width + e]);
        for (const T lane : lanes) total += lane;
        products_[static_cast<std::size_t>(i)] = total;
      }
    });
  }

  // The weights of a tile; false if they are all 0.
  bool weights(const ScoreTile& tile, T* weight) const {
    if (!scores_.compute(tile, weight)) return false;
    const T* const softmax = softmax_ + 2 * row(tile.batch, tile.head, tile.query);
    for (std::int64_t i = 0; i < tile.queries; ++i) {
      T* const line = weight + i * kKeyBlock;
      const T most = softmax[2 * i], share = softmax[2 * i + 1];
      for (std::int64_t j = 0; j < tile.keys; ++j) line[j] = fast_exp(line[j] - most) * share;
    }
    return true;
  }

  // Multiplies a tile by another one.
  static void multiply(const ScoreTile& tile, const T* by, T* to) {
    for (std::int64_t i = 0; i < tile.queries; ++i)
      for (std::int64_t j = i * kKeyBlock; j < i * kKeyBlock + tile.keys; ++j) to[j] *= by[j];
  }

  // The gradients of the scores of a tile, times `scale`. `factors`: those of dropout, if there is dropout.
  void score_gradients(const ScoreTile& tile, const T* weight, const T* factors, T scale, T* to) const {
    gemm(tile.queries, tile.keys, p_.value_features, g_.from(tile.batch, tile.head, tile.query),
         value_.from(tile.batch, tile.head / p_.group(), tile.key, true), to, kKeyBlock, false);
    if (p_.dropout > 0) multiply(tile, factors, to);
    const T* const products = products_.data() + row(tile.batch, tile.head, tile.query);
    for (std::int64_t i = 0; i < tile.queries; ++i) {
      const T* const line = weight + i * kKeyBlock;
      T* const of = to + i * kKeyBlock;
      const T product = products[i];
      for (std::int64_t j = 0; j < tile.keys; ++j) of[j] = line[j] * (of[j] - product) * scale;
    }
  }

  // The gradients of keys begin .. end - 1 of a matrix of the keys, and their part of the gradients of the queries that see them.
  void run_part(std::int64_t matrix, std::int64_t begin, std::int64_t end, T* query_grad, T* tiles) const {
    const std::int64_t batch = matrix / p_.kv_heads, kv_head = matrix % p_.kv_heads, group = p_.group();
    if (query_grad)
      std::fill_n(query_grad + row(batch, kv_head * group, 0) * p_.features, group * p_.queries * p_.features,
                  T{0});
    for (std::int64_t key = begin; key < end; key += kKeyBlock) {
      const std::int64_t keys = std::min(kKeyBlock, end - key), at = matrix * p_.keys + key;
      T* const key_grad = key_grad_ ? key_grad_ + at * p_.features : nullptr;
      T* const value_grad = value_grad_ ? value_grad_ + at * p_.value_features : nullptr;
      if (key_grad) std::fill_n(key_grad, keys * p_.features, T{0});
      if (value_grad) std::fill_n(value_grad, keys * p_.value_features, T{0});
      const std::int64_t first =
          p_.causal ? std::max<std::int64_t>(0, key - (p_.keys - p_.queries)) / kQueryBlock * kQueryBlock : 0;
      for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head)
        for (std::int64_t query = first; query < p_.queries; query += kQueryBlock)
          add_tile({batch, head, query, std::min(kQueryBlock, p_.queries - query), key, keys}, query_grad,
                   key_grad, value_grad, tiles);
    }
  }

  // Adds the gradients of one tile of scores. The tile ends before the first key that none of its queries sees.
  void add_tile(ScoreTile tile, T* query_grad, T* key_grad, T* value_grad, T* tiles) const {
    tile.keys = std::min(tile.keys, p_.visible(tile.query + tile.queries - 1) - tile.key);
    T *const weight = tiles, *const gradient = tiles + kTile, *const factors = tiles + 2 * kTile;
    S* const room = reinterpret_cast<S*>(tiles + 3 * kTile);
    if (!weights(tile, weight)) return;
    const std::int64_t features = p_.features, width = p_.value_features;
    const T* used = weight;
    if (p_.dropout > 0) {
      kept_weights(p_, tile, factors);
      std::copy_n(weight, tile.queries * kKeyBlock, gradient);
      multiply(tile, factors, gradient);
      used = gradient;
    }
    if (value_grad)
      gemm(tile.keys, width, tile.queries, tile_operand(tile, used, true, room),
           g_.from(tile.batch, tile.head, tile.query), value_grad, std::max<std::int64_t>(1, width), true);
    if (!query_grad && !key_grad) return;
    score_gradients(tile, weight, factors, static_cast<T>(p_.scale), gradient);
    const GemmOperand<S> down = tile_operand(tile, gradient, false, room);
    if (query_grad)
      gemm(tile.queries, features, tile.keys, down, key_.from(tile.batch, tile.head / p_.group(), tile.key),
           query_grad + row(tile.batch, tile.head, tile.query) * features,
           std::max<std::int64_t>(1, features), true);
    if (key_grad)
      gemm(tile.keys, features, tile.queries, {down.data, kKeyBlock, true},
           query_.from(tile.batch, tile.head, tile.query), key_grad, std::max<std::int64_t>(1, features),
           true);
  }

  void mask_tile(const Shape& shape, const Dims& index, T* tiles, S* to) const {
    T *const weight = tiles, *const gradient = tiles + kTile, *const factors = tiles + 2 * kTile;
    const Part batches(shape[0], p_.batch, index[0], 1), heads(shape[1], p_.heads, index[1], 1),
        queries(shape[2], p_.queries, index[2], kQueryBlock), keys(shape[3], p_.keys, index[3], kKeyBlock);
    const std::int64_t height = queries.broadcast ? 1 : queries.end - queries.begin,
                       width = keys.broadcast ? 1 : keys.end - keys.begin;
    std::vector<double> sums(static_cast<std::size_t>(height * width));
    const auto add = [&](const ScoreTile& tile) {
      if (!weights(tile, weight)) return;
      if (p_.dropout > 0) kept_weights(p_, tile, factors);
      score_gradients(tile, weight, factors, T{1}, gradient);
      for (std::int64_t i = 0; i < tile.queries; ++i) {
        double* const line = sums.data() + (queries.broadcast ? 0 : i * width);
        for (std::int64_t j = 0; j < tile.keys; ++j)
          line[keys.broadcast ? 0 : j] += static_cast<double>(gradient[i * kKeyBlock + j]);
      }
    };
    for (std::int64_t batch = batches.begin; batch < batches.end; ++batch)
      for (std::int64_t head = heads.begin; head < heads.end; ++head)
        for (std::int64_t query = queries.begin; query < queries.end; query += kQueryBlock)
          for (std::int64_t key = keys.begin; key < keys.end; key += kKeyBlock)
            add({batch, head, query, std::min(kQueryBlock, queries.end - query), key,
                 std::min(kKeyBlock, keys.end - key)});
    S* const first =
        to + ((index[0] * shape[1] + index[1]) * shape[2] + queries.begin) * shape[3] + keys.begin;
    for (std::int64_t i = 0; i < height; ++i)
      for (std::int64_t j = 0; j < width; ++j)
        first[i * shape[3] + j] = static_cast<S>(sums[static_cast<std::size_t>(i * width + j)]);
  }

  const AttentionProblem& p_;
  Scores<S> scores_;
  HeadRows<S> query_, key_, value_, g_;
  const T* softmax_;
  Sums query_sums_, key_sums_, value_sums_;
  T *query_grad_, *key_grad_, *value_grad_;
  std::vector<T> products_;  // of each row of y and its gradient
};

void attention_backward_kernel(const KernelContext&, const AttentionProblem& problem,
                               const AttentionInputs& in, const AttentionResult& result,
                               const AttentionGradients& gradients) {
  visit_floating_or_half(result.g.dtype(), [&]<class S>() {
    AttentionBackward<S> backward(problem, in, result, gradients);
    backward.run();
    if (gradients.mask.defined()) backward.mask(gradients.mask, in.mask.shape());
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(attention_backward) {
  table.add<AttentionBackwardKernel>("attention_backward", DeviceKind::cpu, attention_backward_kernel);
}

}  // namespace heddle::cpu_kernels
