// The forward kernel of attention: blocks of keys pass by each block of queries, with a running maximum and sum of exponentials of each
// query (FlashAttention: Dao et al., arXiv:2205.14135). Its memory does not depend on the number of keys.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <heddle/parallel.h>

#include "core/kernel_table.h"
#include "cpu/floating.h"
#include "cpu/scratch.h"
#include "cpu/vector_math.h"
#include "families/attention/cpu/kept_weights.h"
#include "families/attention/cpu/score_tile.h"

namespace heddle::cpu_kernels {
namespace {

constexpr double kTaskFlops = 4e6;  // least work of a task that is passed to another worker

// The largest of `most` and the elements of a row; NaN if one of them is NaN.
template <class T> T largest(const T* row, std::int64_t length, T most) {
  constexpr std::int64_t kLanes = 128 / sizeof(T);
  const auto larger = [](T a, T b) {
    const T greater = b > a ? b : a;
    return b != b ? b : greater;
  };
  T lanes[kLanes];
  std::fill_n(lanes, kLanes, most);
  std::int64_t j = 0;
  for (; j + kLanes <= length; j += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] = larger(lanes[lane], row[j + lane]);
  for (; j < length; ++j) most = larger(most, row[j]);
  for (const T lane : lanes) most = larger(most, lane);
  return most;
}

// row = exp(row - most). Returns the sum of the exponentials.
template <class T> T exponentials(T* row, std::int64_t length, T most) {
  constexpr std::int64_t kLanes = 64 / sizeof(T);
  for (std::int64_t j = 0; j < length; ++j) row[j] = fast_exp(row[j] - most);
  T lanes[kLanes] = {};
  std::int64_t j = 0;
  for (; j + kLanes <= length; j += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += row[j + lane];
  T total = 0;
  for (; j < length; ++j) total += row[j];
  for (const T lane : lanes) total += lane;
  return total;
}

// S: the type of the arrays; T: that in which is computed.
template <class S> class QueryBlock {
 public:
  using T = ComputeType<S>;
  static std::size_t scratch_bytes(const AttentionProblem& problem) {
    return static_cast<std::size_t>(kQueryBlock * (2 * kKeyBlock + problem.value_features + 2)) * sizeof(T) +
           kTileRoom<S>;
  }
  QueryBlock(const AttentionProblem& problem, const Scores<S>& scores, const HeadRows<S>& values, T* scratch)
      : problem_(problem),
        scores_(scores),
        values_(values),
        tile_(scratch),
        factors_(tile_ + kQueryBlock * kKeyBlock),
        sums_(factors_ + kQueryBlock * kKeyBlock),
        most_(sums_ + kQueryBlock * problem.value_features),
        totals_(most_ + kQueryBlock),
        room_(reinterpret_cast<S*>(totals_ + kQueryBlock)) {}

  // y and softmax are those of the first query.
  void run(std::int64_t batch, std::int64_t head, std::int64_t query, S* y, T* softmax) {
    const std::int64_t queries = std::min(kQueryBlock, problem_.queries - query),
                       width = problem_.value_features;
    std::fill_n(most_, queries, kNothing);
    std::fill_n(totals_, queries, T{0});
    std::fill_n(sums_, queries * width, T{0});
    const std::int64_t end = problem_.visible(query + queries - 1);
    for (std::int64_t key = 0; key < end; key += kKeyBlock) {
      const std::int64_t keys = std::min(kKeyBlock, end - key);
      const ScoreTile tile{batch, head, query, queries, key, keys};
      if (!scores_.compute(tile, tile_)) continue;
      for (std::int64_t i = 0; i < queries; ++i) weigh(i, keys);
      if (problem_.dropout > 0) drop(tile);
      gemm(queries, width, keys, tile_operand(tile, tile_, false, room_),
           values_.from(batch, head / problem_.group(), key), sums_, std::max<std::int64_t>(1, width), true);
    }
    for (std::int64_t i = 0; i < queries; ++i) {
      const bool sees = most_[i] != kNothing;
      const T share = sees ? T{1} / totals_[i] : T{0};
      for (std::int64_t e = 0; e < width; ++e)
        y[i * width + e] = static_cast<S>(sums_[i * width + e] * share);
      softmax[2 * i] = sees ? most_[i] : T{0};
      softmax[2 * i + 1] = share;
    }
  }

 private:
  static constexpr T kNothing = -std::numeric_limits<T>::infinity();

  // Makes weights of row i of the scores, which count relative to the maximum so far, and brings what was summed to a new maximum.
  void weigh(std::int64_t i, std::int64_t keys) {
    T* const row = tile_ + i * kKeyBlock;
    const T before = most_[i], most = largest(row, keys, before);
    if (most == kNothing) {
      std::fill_n(row, keys, T{0});
      return;
    }
    const T weight = exponentials(row, keys, most);
    most_[i] = most;
    if (most != before) {
      const T factor = before == kNothing ? T{0} : std::exp(before - most);
      T* const sums = sums_ + i * problem_.value_features;
      for (std::int64_t e = 0; e < problem_.value_features; ++e) sums[e] *= factor;
      totals_[i] *= factor;
    }
    totals_[i] += weight;
  }

  // Drops weights, but not from the sums of weights.
  void drop(const ScoreTile& tile) {
    kept_weights(problem_, tile, factors_);
    for (std::int64_t i = 0; i < tile.queries; ++i)
      for (std::int64_t j = i * kKeyBlock; j < i * kKeyBlock + tile.keys; ++j) tile_[j] *= factors_[j];
  }

  const AttentionProblem& problem_;
  const Scores<S>& scores_;
  const HeadRows<S>& values_;
  T *tile_, *factors_, *sums_, *most_, *totals_;
  S* room_;
};

template <class S>
void forward(const AttentionProblem& p, const AttentionInputs& in, const NDArray& y, const NDArray& softmax) {
  using T = ComputeType<S>;
  const Scores<S> scores(p, in);
  const HeadRows<S> values(in.value);
  S* const to = y.data<S>();
  T* const numbers = softmax.data<T>();
  const std::int64_t blocks = blocks_of(p.queries, kQueryBlock);
  const double flops = 2.0 * kQueryBlock * static_cast<double>(p.keys) *
                       static_cast<double>(p.features + p.value_features + 1);
  const std::int64_t grain = std::max<std::int64_t>(1, static_cast<std::int64_t>(kTaskFlops / (flops + 1)));
  parallel_for(p.batch * p.heads * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    const Scratch scratch(QueryBlock<S>::scratch_bytes(p));
    QueryBlock<S> block(p, scores, values, scratch.as<T>());
    for (std::int64_t task = begin; task < end; ++task) {
      // The last blocks come first: causality lets them see the most.
      const std::int64_t query = (blocks - 1 - task % blocks) * kQueryBlock, matrix = task / blocks;
      const std::int64_t at = matrix * p.queries + query;
      block.run(matrix / p.heads, matrix % p.heads, query, to + at * p.value_features, numbers + 2 * at);
    }
  });
}

void attention_kernel(const KernelContext&, const AttentionProblem& problem, const AttentionInputs& in,
                      const NDArray& y, const NDArray& softmax) {
  visit_floating_or_half(y.dtype(), [&]<class S>() { forward<S>(problem, in, y, softmax); });
}

void attention_dropout_kernel(const KernelContext&, const AttentionProblem& p, const NDArray& factors) {
  visit_floating(factors.dtype(), [&]<class T>() {
    T* const to = factors.data<T>();
    parallel_for(p.batch * p.heads * p.queries, 16, [&](std::int64_t begin, std::int64_t end) {
      T part[kKeyBlock];
      for (std::int64_t row = begin; row < end; ++row)
        for (std::int64_t key = 0; key < p.keys; key += kKeyBlock) {
          const std::int64_t matrix = row / p.queries, keys = std::min(kKeyBlock, p.keys - key);
          kept_weights(p, {matrix / p.heads, matrix % p.heads, row % p.queries, 1, key, keys}, part);
          std::copy_n(part, keys, to + row * p.keys + key);
        }
    });
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(attention) {
  table.add<AttentionKernel>("attention", DeviceKind::cpu, attention_kernel);
  table.add<AttentionDropoutKernel>("attention_dropout", DeviceKind::cpu, attention_dropout_kernel);
}

}  // namespace heddle::cpu_kernels
