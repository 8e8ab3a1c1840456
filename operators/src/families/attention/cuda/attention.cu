// Attention on GPUs: blocks of keys pass by a block of queries, with a running maximum and sum of exponentials of each query, and the
// backward pass computes weights again (FlashAttention: Dao et al., arXiv:2205.14135). No memory depends on queries times keys. Sums
// are in the order of blocks of 32 keys, or of heads and blocks of 32 queries, whatever the GPU.
#include "families/attention/cuda/score_tile.h"
#include "gpu/layout.h"

namespace heddle::cuda_kernels {
namespace {

using on_gpu::Thread;
using on_gpu::Type;

// Over the eight threads of a row. All of them get the result.
template <class Sum> HEDDLE_DEVICE Sum row_sum(Thread& thread, Sum value) {
  for (int by = kLanes / 2; by > 0; by /= 2) value += thread.shuffle_xor(value, by);
  return value;
}
template <class Sum> HEDDLE_DEVICE Sum larger(Sum a, Sum b) {  // NaN if one is NaN
  return b != b || b > a ? b : a;
}
template <class Sum> HEDDLE_DEVICE Sum row_largest(Thread& thread, Sum value) {
  for (int by = kLanes / 2; by > 0; by /= 2) value = larger(value, thread.shuffle_xor(value, by));
  return value;
}

// What a block of threads computes: a block of queries of one head, whose keys end at `end`, and a chunk of columns.
struct QueryBlock {
  long long chunk, query, end;
  Tile tile;

  template <class T>
  HEDDLE_DEVICE QueryBlock(const Thread& thread, const Scorer<T>& scorer, long long blocks,
                           long long chunks) {
    const Attention& p = scorer.p;
    const long long block = thread.block_index().x, rest = block / chunks, matrix = rest / blocks;
    chunk = block % chunks;
    query =
        (blocks - 1 - rest % blocks) * kSide;  // the last blocks come first: causality lets them see the most
    end = scorer.visible(query + kSide < p.queries ? query + kSide - 1 : p.queries - 1);
    tile = {matrix / p.heads, matrix % p.heads, query, 0};
  }
};

// One block of queries of one head, and one chunk of the columns of its values.
template <class Arithmetic> struct Forward {
  using T = Arithmetic;
  using Sum = typename T::Sum;
  Scorer<T> scorer;
  long long blocks, chunks;

  HEDDLE_DEVICE void operator()(Thread& thread) const {
    HEDDLE_SHARED(thread, tiles, AttentionTiles<Sum>);
    const Attention& p = scorer.p;
    const QueryBlock block(thread, scorer, blocks, chunks);
    Tile tile = block.tile;
    const int row = thread.rank() / kLanes, lane = thread.rank() % kLanes;
    Sum sums[kPieces * kEach] = {}, most = Scorer<T>::nothing(), total = 0;
    for (; tile.key < block.end; tile.key += kSide) {
      Sum weights[kEach];
      scorer.scores(thread, tiles, tile, weights);
      weigh(thread, weights, most, total, sums);
      HEDDLE_UNROLL
      for (int i = 0; i < kEach; ++i) {
        const int column = lane + i * kLanes;
        if (p.drops) weights[i] *= scorer.factor(scorer.row_of(tile, row), tile.key + column);
        tiles.weights[row][column] = weights[i];
      }
      scorer.template add_rows<false>(
          thread, tiles,
          rows_of(p.value, tile.batch, scorer.kv_head(tile.head), tile.key, p.keys, p.value_features),
          block.chunk * kChunk, sums);
    }
    if (block.query + row >= p.queries) return;
    const bool sees = most != Scorer<T>::nothing();
    const Sum share = sees ? Sum{1} / total : Sum{0};
    const long long at = scorer.row_of(tile, row);
    HEDDLE_UNROLL
    for (int i = 0; i < kPieces * kEach; ++i) {
      const long long column = block.chunk * kChunk + lane + i * kLanes;
      if (column < p.value_features)
        put_sum<Sum>(p.y, at * p.value_features + column, Type{p.type}, sums[i] * share);
    }
    if (block.chunk != 0 || lane != 0) return;
    static_cast<Sum*>(p.softmax)[2 * at] = sees ? most : Sum{0};
    static_cast<Sum*>(p.softmax)[2 * at + 1] = share;
  }

  // Makes weights of scores, which count relative to the maximum so far, and brings what was summed to a new maximum.
  static HEDDLE_DEVICE void weigh(Thread& thread, Sum (&weights)[kEach], Sum& most, Sum& total,
                                  Sum (&sums)[kPieces * kEach]) {
    Sum largest = most, weight = 0;
    for (int i = 0; i < kEach; ++i) largest = larger(largest, weights[i]);
    largest = row_largest(thread, largest);
    const bool sees = largest != Scorer<T>::nothing();
    HEDDLE_UNROLL
    for (int i = 0; i < kEach; ++i) {
      weights[i] = sees ? std::exp(weights[i] - largest) : Sum{0};
      weight += weights[i];
    }
    weight = row_sum(thread, weight);
    const Sum factor = most == largest                ? Sum{1}
                       : most == Scorer<T>::nothing() ? Sum{0}
                                                      : std::exp(most - largest);
    HEDDLE_UNROLL
    for (int i = 0; i < kPieces * kEach; ++i) sums[i] *= factor;
    total = total * factor + weight;
    most = largest;
  }
};

// The scalar product of each row of y with that of its gradient, by a warp.
template <class Arithmetic> struct RowProducts {
  using T = Arithmetic;
  using Sum = typename T::Sum;
  Attention p;
  long long rows;
  HEDDLE_DEVICE void operator()(Thread& thread) const {
    const long long warps = thread.global_size() / on_gpu::kWarp;
    for (long long row = thread.global_index() / on_gpu::kWarp; row < rows; row += warps) {
      const long long query = row % p.queries, matrix = row / p.queries;
      const long long in_g = matrix / p.heads * p.g.batch + matrix % p.heads * p.g.head + query * p.g.row;
      Sum sum = 0;
      for (long long e = thread.lane(); e < p.value_features; e += on_gpu::kWarp)
        sum = T::multiply_add(sum, T::load(p.g.data, in_g + e, Type{p.type}),
                              T::load(p.y, row * p.value_features + e, Type{p.type}));
      for (int by = on_gpu::kWarp / 2; by > 0; by /= 2) sum += thread.shuffle_xor(sum, by);
      if (thread.lane() == 0) static_cast<Sum*>(p.products)[row] = sum;
    }
  }
};

// Weights and gradients of scores of a tile, computed again.
template <class Arithmetic> struct Backward : Scorer<Arithmetic> {
  using T = Arithmetic;
  using Sum = typename T::Sum;
  using Scorer<T>::p;

  HEDDLE_DEVICE HeadRows gradient_rows(const Tile& tile) const {
    return rows_of(p.g, tile.batch, tile.head, tile.query, p.queries, p.value_features);
  }
  HEDDLE_DEVICE void weights(Thread& thread, AttentionTiles<Sum>& tiles, const Tile& tile,
                             Sum (&to)[kEach]) const {
    this->scores(thread, tiles, tile, to);
    const int row = thread.rank() / kLanes;
    if (tile.query + row >= p.queries) {
      for (int i = 0; i < kEach; ++i) to[i] = 0;
      return;
    }
    const auto* const softmax = static_cast<const Sum*>(p.softmax) + 2 * this->row_of(tile, row);
    for (int i = 0; i < kEach; ++i) to[i] = std::exp(to[i] - softmax[0]) * softmax[1];
  }
  HEDDLE_DEVICE void drop(Thread& thread, const Tile& tile, Sum (&by)[kEach]) const {
    if (!p.drops) return;
    const long long row = this->row_of(tile, thread.rank() / kLanes);
    HEDDLE_UNROLL
    for (int i = 0; i < kEach; ++i)
      by[i] *= this->factor(row, tile.key + thread.rank() % kLanes + i * kLanes);
  }
  // The gradients of the scores, times `scale`.
  HEDDLE_DEVICE void gradients(Thread& thread, AttentionTiles<Sum>& tiles, const Tile& tile, Sum scale,
                               Sum (&to)[kEach]) const {
    Sum weight[kEach];
    weights(thread, tiles, tile, weight);
    this->products(thread, tiles, gradient_rows(tile),
                   rows_of(p.value, tile.batch, this->kv_head(tile.head), tile.key, p.keys, p.value_features),
                   to);
    drop(thread, tile, to);
    const int row = thread.rank() / kLanes;
    const bool inside = tile.query + row < p.queries;
    const Sum product = inside ? static_cast<const Sum*>(p.products)[this->row_of(tile, row)] : Sum{0};
    for (int i = 0; i < kEach; ++i) {
      const bool is_key = tile.key + thread.rank() % kLanes + i * kLanes < p.keys;
      to[i] = is_key ? weight[i] * (to[i] - product) * scale : Sum{0};
    }
  }
  HEDDLE_DEVICE static void keep(Thread& thread, AttentionTiles<Sum>& tiles, const Sum (&from)[kEach]) {
    for (int i = 0; i < kEach; ++i)
      tiles.weights[thread.rank() / kLanes][thread.rank() % kLanes + i * kLanes] = from[i];
  }
  HEDDLE_DEVICE void write(Thread& thread, void* to, long long row, long long columns, long long first,
                           const Sum (&sums)[kPieces * kEach]) const {
    HEDDLE_UNROLL
    for (int i = 0; i < kPieces * kEach; ++i) {
      const long long column = first + thread.rank() % kLanes + i * kLanes;
      if (column < columns) put_sum<Sum>(to, row * columns + column, Type{p.type}, sums[i]);
    }
  }
};

// One block of queries of one head, and one chunk of its features.
template <class Arithmetic> struct QueryGradients {
  using T = Arithmetic;
  using Sum = typename T::Sum;
  Backward<T> backward;
  long long blocks, chunks;
  HEDDLE_DEVICE void operator()(Thread& thread) const {
    HEDDLE_SHARED(thread, tiles, AttentionTiles<Sum>);
    const Attention& p = backward.p;
    const QueryBlock block(thread, static_cast<const Scorer<T>&>(backward), blocks, chunks);
    Tile tile = block.tile;
    Sum sums[kPieces * kEach] = {};
    for (; tile.key < block.end; tile.key += kSide) {
      Sum gradient[kEach];
      backward.gradients(thread, tiles, tile, static_cast<Sum>(p.scale), gradient);
      backward.keep(thread, tiles, gradient);
      backward.template add_rows<false>(
          thread, tiles,
          rows_of(p.key, tile.batch, backward.kv_head(tile.head), tile.key, p.keys, p.features),
          block.chunk * kChunk, sums);
    }
    const int row = thread.rank() / kLanes;
    if (block.query + row < p.queries)
      backward.write(thread, p.query_grad, backward.row_of(tile, row), p.features, block.chunk * kChunk,
                     sums);
  }
};

// One block of keys of one head of keys, and one chunk of the columns of the gradient of keys or, if `of_values`, of values.
template <class Arithmetic, bool of_values> struct KeyGradients {
  using T = Arithmetic;
  using Sum = typename T::Sum;
  Backward<T> backward;
  long long blocks, chunks;
  HEDDLE_DEVICE void operator()(Thread& thread) const {
    HEDDLE_SHARED(thread, tiles, AttentionTiles<Sum>);
    const Attention& p = backward.p;
    const long long block = thread.block_index().x, chunk = block % chunks, rest = block / chunks;
    const long long key = rest % blocks * kSide, matrix = rest / blocks, group = p.heads / p.kv_heads;
    const long long batch = matrix / p.kv_heads, kv_head = matrix % p.kv_heads;
    const long long columns = of_values ? p.value_features : p.features;
    Sum sums[kPieces * kEach] = {};
    const long long hidden = p.causal ? key - (p.keys - p.queries) : 0;  // queries before this one see none
    const long long first = hidden > 0 ? hidden / kSide * kSide : 0;
    for (long long head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      for (long long query = first; query < p.queries; query += kSide) {
        const Tile tile{batch, head, query, key};
        Sum weight[kEach];
        if (of_values) {
          backward.weights(thread, tiles, tile, weight);
          backward.drop(thread, tile, weight);
        } else {
          backward.gradients(thread, tiles, tile, static_cast<Sum>(p.scale), weight);
        }
        backward.keep(thread, tiles, weight);
        const HeadRows rows = of_values ? backward.gradient_rows(tile)
                                        : rows_of(p.query, batch, head, query, p.queries, p.features);
        backward.template add_rows<true>(thread, tiles, rows, chunk * kChunk, sums);
      }
    }
    const int row = thread.rank() / kLanes;
    if (key + row < p.keys)
      backward.write(thread, of_values ? p.value_grad : p.key_grad, matrix * p.keys + key + row, columns,
                     chunk * kChunk, sums);
  }
};

// The gradient of the mask, summed in f64 over what the mask is broadcast along: one tile of the mask.
template <class Arithmetic> struct MaskGradient {
  using T = Arithmetic;
  using Sum = typename T::Sum;
  Backward<T> backward;
  long long down, across;

  struct Span {
    long long begin, end;
  };
  static HEDDLE_DEVICE Span span(long long of_mask, long long size, long long index, long long block) {
    if (of_mask == 1) return {0, size};
    const long long begin = index * block;
    return {begin, begin + block < size ? begin + block : size};
  }
  HEDDLE_DEVICE void operator()(Thread& thread) const {
    HEDDLE_SHARED(thread, tiles, AttentionTiles<Sum>);
    HEDDLE_SHARED(thread, totals, double[kSide][kSide + 1]);
    const Attention& p = backward.p;
    const long long(&shape)[4] = p.mask_shape;
    const long long block = thread.block_index().x, matrix = block / across / down;
    const Span batches = span(shape[0], p.batch, matrix / shape[1], 1),
               heads = span(shape[1], p.heads, matrix % shape[1], 1),
               queries = span(shape[2], p.queries, block / across % down, kSide),
               keys = span(shape[3], p.keys, block % across, kSide);
    double sums[kEach] = {};
    for (long long batch = batches.begin; batch < batches.end; ++batch)
      for (long long head = heads.begin; head < heads.end; ++head)
        for (long long query = queries.begin; query < queries.end; query += kSide)
          for (long long key = keys.begin; key < keys.end; key += kSide) {
            Sum gradient[kEach];
            backward.gradients(thread, tiles, {batch, head, query, key}, Sum{1}, gradient);
            for (int i = 0; i < kEach; ++i) sums[i] += static_cast<double>(gradient[i]);
          }
    const int row = thread.rank() / kLanes, lane = thread.rank() % kLanes;
    for (int i = 0; i < kEach; ++i) totals[row][lane + i * kLanes] = sums[i];
    thread.barrier();
    // Adds what is beyond the mask's own rows and columns. What is beyond the ends of the scores is 0.
    for (int i = 0; i < kEach; ++i) {
      const int column = lane + i * kLanes;
      if ((shape[2] == 1 && row > 0) || (shape[3] == 1 && column > 0)) continue;
      if (shape[2] != 1 && queries.begin + row >= queries.end) continue;
      if (shape[3] != 1 && keys.begin + column >= keys.end) continue;
      double sum = 0;
      for (int r = row; r < (shape[2] == 1 ? kSide : row + 1); ++r)
        for (int c = column; c < (shape[3] == 1 ? kSide : column + 1); ++c) sum += totals[r][c];
      const long long to = (matrix * shape[2] + queries.begin + row) * shape[3] + keys.begin + column;
      on_gpu::store(p.mask_grad, to, Type{p.type}, sum);
    }
  }
};

template <class Arithmetic> struct Dropout {
  Scorer<Arithmetic> scorer;
  typename Arithmetic::Sum* factors;
  HEDDLE_DEVICE void operator()(Thread& thread) const {
    const Attention& p = scorer.p;
    const long long count = p.batch * p.heads * p.queries * p.keys;
    for (long long i = thread.global_index(); i < count; i += thread.global_size())
      factors[i] = scorer.factor(i / p.keys, i % p.keys);
  }
};

long long chunks_of(long long columns) { return columns > kChunk ? (columns + kChunk - 1) / kChunk : 1; }
long long blocks_of(long long rows) { return (rows + kSide - 1) / kSide; }

template <class K> const char* launch_blocks(void* stream, long long blocks, const K& kernel) {
  if (blocks == 0) return nullptr;
  const cudaError_t status =
      on_gpu::launch(static_cast<cudaStream_t>(stream), dim3(static_cast<unsigned>(blocks)),
                     dim3(kAttentionThreads), 0, kernel);
  if (status == cudaSuccess) return nullptr;
  cudaGetLastError();
  return cudaGetErrorString(status);
}

template <class T> const char* forward_as(void* stream, const Attention& p) {
  const long long blocks = blocks_of(p.queries), chunks = chunks_of(p.value_features);
  return launch_blocks(stream, p.batch * p.heads * blocks * chunks, Forward<T>{{p}, blocks, chunks});
}

template <class T> const char* backward_as(void* stream, const Attention& p) {
  const Backward<T> backward{{p}};
  const long long rows = p.batch * p.heads * p.queries, key_blocks = blocks_of(p.keys),
                  query_blocks = blocks_of(p.queries), matrices = p.batch * p.kv_heads;
  const long long of_features = chunks_of(p.features), of_values = chunks_of(p.value_features);
  const char* failed = nullptr;
  if (rows > 0)
    failed =
        on_gpu::launch_over(static_cast<cudaStream_t>(stream), rows * on_gpu::kWarp, RowProducts<T>{p, rows});
  if (!failed && p.query_grad)
    failed = launch_blocks(stream, p.batch * p.heads * query_blocks * of_features,
                           QueryGradients<T>{backward, query_blocks, of_features});
  if (!failed && p.key_grad)
    failed = launch_blocks(stream, matrices * key_blocks * of_features,
                           KeyGradients<T, false>{backward, key_blocks, of_features});
  if (!failed && p.value_grad)
    failed = launch_blocks(stream, matrices * key_blocks * of_values,
                           KeyGradients<T, true>{backward, key_blocks, of_values});
  if (failed || !p.mask_grad) return failed;
  const long long down = p.mask_shape[2] == 1 ? 1 : query_blocks,
                  across = p.mask_shape[3] == 1 ? 1 : key_blocks;
  return launch_blocks(stream, p.mask_shape[0] * p.mask_shape[1] * down * across,
                       MaskGradient<T>{backward, down, across});
}

}  // namespace

const char* launch_attention(void* stream, const Attention& p) {
  return Type{p.type} == Type::f64 ? forward_as<Doubles>(stream, p) : forward_as<Floats>(stream, p);
}
const char* launch_attention_backward(void* stream, const Attention& p) {
  return Type{p.type} == Type::f64 ? backward_as<Doubles>(stream, p) : backward_as<Floats>(stream, p);
}
const char* launch_attention_dropout(void* stream, const Attention& p, void* factors) {
  const long long count = p.batch * p.heads * p.queries * p.keys;
  const auto native = static_cast<cudaStream_t>(stream);
  if (Type{p.type} == Type::f64)
    return on_gpu::launch_over(native, count, Dropout<Doubles>{{p}, static_cast<double*>(factors)});
  return on_gpu::launch_over(native, count, Dropout<Floats>{{p}, static_cast<float*>(factors)});
}

}  // namespace heddle::cuda_kernels
