// Heddle's own product of matrices on GPUs (tile_product.h). The terms of a product follow each other along k.
#include "cuda/tile_launch.h"
#include "cuda/tiled_gemm.h"

namespace heddle::cuda_kernels {
namespace {

using on_gpu::Type;

// The offsets in a and b of the index-th of the stacks.
struct Offsets {
  long long a, b;
};
HEDDLE_DEVICE Offsets offsets_of(const GemmAxes& axes, long long index) {
  Offsets offsets{0, 0};
  for (int d = axes.dims - 1; d >= 0; --d) {
    const long long at = d == 0 ? index : index % axes.sizes[d];
    index /= axes.sizes[d];
    offsets.a += at * axes.a[d];
    offsets.b += at * axes.b[d];
  }
  return offsets;
}

template <class Arithmetic> struct Matrices {
  using T = Arithmetic;
  using Sum = typename T::Sum;
  struct Line {
    long long offset;  // kBeyond: beyond the end
  };
  struct Point {
    long long in_a, in_b;  // offsets along k
  };

  Gemm g;
  long long rows, columns, batches;
  long long term;  // places along k of a term: k rounded up to whole slices; 0: there is one term
  long long a_row, a_k, b_column, b_k;  // steps in memory

  HEDDLE_DEVICE bool a_dense() const { return !g.a.transposed; }
  HEDDLE_DEVICE bool b_dense() const { return g.b.transposed; }
  HEDDLE_DEVICE Line a_line(long long batch, long long row) const {
    if (row >= rows) return {kBeyond};
    return {offsets_of(g.batches, batch).a + row * a_row};
  }
  HEDDLE_DEVICE Line b_line(long long batch, long long column) const {
    if (column >= columns) return {kBeyond};
    return {offsets_of(g.batches, batch).b + column * b_column};
  }
  HEDDLE_DEVICE Point point(long long k) const {
    Offsets of_term{0, 0};
    if (term) {
      of_term = offsets_of(g.terms, k / term);
      k %= term;
    }
    if (k >= g.k) return {kBeyond, kBeyond};
    return {of_term.a + k * a_k, of_term.b + k * b_k};
  }
  HEDDLE_DEVICE Sum a(const Line& line, const Point& point) const {
    const bool inside = line.offset != kBeyond && point.in_a != kBeyond;
    return inside ? T::load(g.a.data, line.offset + point.in_a, Type{g.type}) : Sum{0};
  }
  HEDDLE_DEVICE Sum b(const Line& line, const Point& point) const {
    const bool inside = line.offset != kBeyond && point.in_b != kBeyond;
    return inside ? T::load(g.b.data, line.offset + point.in_b, Type{g.type}) : Sum{0};
  }
  // What follows the sum of an element.
  HEDDLE_DEVICE void finish(long long batch, long long row, long long column, Sum sum) const {
    const long long at = batch * g.d_batch + row * g.d_stride + column;
    const Type type{g.d_type};
    if constexpr (std::is_floating_point_v<Sum>) {
      if (g.alpha != 1) sum *= static_cast<Sum>(g.alpha);
      if (g.beta != 0) sum += static_cast<Sum>(g.beta) * T::load(g.d, at, type);
      if (g.bias) sum += T::load(g.bias, column, Type{g.bias_type});
      if (g.relu) sum = sum < 0 ? 0 : sum;  // NaN stays
    } else {
      if (g.beta != 0) sum = T::multiply_add(sum, T::load(g.d, at, type), 1);
    }
    put_sum<Sum>(g.d, at, type, sum);
  }

 private:
  static constexpr long long kBeyond = -0x7fffffffffffffff - 1;
};

bool is_single(Type type) { return type == Type::f32 || type == Type::f16 || type == Type::bf16; }

TilePlan plan_of(const Gemm& g) {
  return plan_tiles(g.m, g.n, g.batches.count(), g.k, g.terms.count(), is_single(Type{g.type}));
}

template <class T> Matrices<T> matrices(const Gemm& g, bool large) {
  const long long step = large ? 8 : 16;
  Matrices<T> p{};
  p.g = g;
  p.rows = g.m, p.columns = g.n, p.batches = g.batches.count();
  p.term = g.terms.dims > 0 ? divided(g.k, step) * step : 0;
  p.a_row = g.a.transposed ? 1 : g.a.stride;
  p.a_k = g.a.transposed ? g.a.stride : 1;
  p.b_column = g.b.transposed ? g.b.stride : 1;
  p.b_k = g.b.transposed ? 1 : g.b.stride;
  return p;
}

template <class T, int kMicro> const char* launch_as(void* stream, const Gemm& g, void* parts) {
  return launch_tiles<kMicro>(stream, matrices<T>(g, kMicro == 8), plan_of(g), parts);
}

}  // namespace

long long gemm_bytes(const Gemm& g) {
  const TilePlan plan = plan_of(g);
  const int bytes = on_gpu::size_of(Type{g.type}) == 8 ? 8 : 4;
  return plan.parts > 1 ? plan.parts * g.batches.count() * g.m * g.n * bytes : 0;
}

const char* launch_gemm(void* stream, const Gemm& g, void* parts) {
  switch (Type{g.type}) {
    case Type::f32:
    case Type::f16:
    case Type::bf16:
      if (plan_of(g).large) return launch_as<Floats, 8>(stream, g, parts);
      return launch_as<Floats, 4>(stream, g, parts);
    case Type::f64:
      return launch_as<Doubles, 4>(stream, g, parts);
    case Type::i64:
    case Type::u64:
      return launch_as<LongWords, 4>(stream, g, parts);
    case Type::boolean:
      return launch_as<Truths, 4>(stream, g, parts);
    default:
      return launch_as<Words, 4>(stream, g, parts);
  }
}

const char* launch_gemm_end(void* stream, const Gemm& g, const void* sums) {
  if (Type{g.type} == Type::f64) return launch_end(stream, matrices<Doubles>(g, false), 1, sums);
  return launch_end(stream, matrices<Floats>(g, false), 1, sums);
}

}  // namespace heddle::cuda_kernels
