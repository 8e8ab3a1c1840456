// Products of 8-bit integers on GPUs: tiles (tile_product.h) whose elements are words of four bytes, with sums of 32 bits, which are exact.
// The input is made bytes first. It is kept as i8, 128 less than its u8 numbers, since GPUs multiply bytes of one kind. What the zero
// point adds to a sum, times the sum of the weights of its output, is taken away at the end.
#include <cmath>

#include "cuda/team.h"
#include "cuda/tile_launch.h"
#include "families/conv/cuda/places.h"
#include "families/quantized/bytes_functors.h"
#include "families/quantized/cuda/kernels.h"

namespace heddle::cuda_kernels {
namespace {

using functors::ByteScale;

constexpr long long kBytes = 4;  // of a word

// sum + the products of four bytes each. The hardware's instruction has the same bits.
HEDDLE_DEVICE inline std::uint32_t add_four(std::uint32_t sum, std::uint32_t a, std::uint32_t b) {
#ifdef __CUDA_ARCH__
  return static_cast<std::uint32_t>(__dp4a(static_cast<int>(a), static_cast<int>(b), static_cast<int>(sum)));
#else
  for (int byte = 0; byte < 32; byte += 8) {
    const int x = static_cast<std::int8_t>(a >> byte), y = static_cast<std::int8_t>(b >> byte);
    sum += static_cast<std::uint32_t>(x * y);
  }
  return sum;
#endif
}

struct FourBytes {
  using Sum = std::uint32_t;
  using Total = std::uint32_t;
  static HEDDLE_DEVICE Sum multiply_add(Sum sum, Sum a, Sum b) { return add_four(sum, a, b); }
  static HEDDLE_DEVICE Total add(Total total, Sum sum) { return total + sum; }
};

HEDDLE_DEVICE inline ByteScale scale_of(const ByteWeights& w) { return {*w.input_scale, *w.zero_point}; }
HEDDLE_DEVICE inline std::uint32_t kept(std::uint8_t byte) { return byte ^ 0x80u; }

// `count` weights from `at` on, at most four, in one word; the rest is 0.
HEDDLE_DEVICE inline std::uint32_t load_word(const signed char* at, long long step, long long count) {
  std::uint32_t word = 0;
  HEDDLE_UNROLL
  for (int i = 0; i < kBytes; ++i)
    if (i < count) word |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(at[i * step])) << (8 * i);
  return word;
}

// The result of an output's sum. The CPU's compilers make a multiply-add of its last two operations.
HEDDLE_DEVICE inline float result_of(const ByteWeights& w, const std::uint32_t* corrections, long long output,
                                     std::uint32_t sum) {
  const auto exact = static_cast<std::int32_t>(sum - corrections[output]);
  const float factor = *w.input_scale * w.weight_scale[output];
  const float y = std::fma(static_cast<float>(exact), factor, w.bias ? w.bias[output] : 0.0f);
  return w.relu && y < 0 ? 0.0f : y;
}

// What is to be taken from the sums of each output, by a team of threads.
struct Corrections {
  ByteWeights w;
  Teams teams;
  std::uint32_t* to;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    Team team(thread, teams);
    const long long output = team.line();
    const bool is_line = output < w.outputs;
    std::uint32_t sum = 0;
    if (is_line) {
      const signed char* const weight = w.weight + output * w.products;
      for (long long i = team.position(); i < w.products; i += team.size())
        sum += static_cast<std::uint32_t>(static_cast<std::int32_t>(weight[i]));
    }
    sum = team.all(sum, Plus{});
    if (is_line && team.position() == 0)
      to[output] = sum * static_cast<std::uint32_t>(scale_of(w).zero_point - 128);
  }
};

// x (rows, products) -> words (rows, words of a row).
struct RowWords {
  ByteLinear p;
  long long words;
  std::uint32_t* to;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const ByteScale scale = scale_of(p.weights);
    const long long products = p.weights.products;
    for (long long i = thread.global_index(); i < p.rows * words; i += thread.global_size()) {
      const Quotient at = divide(i, words);
      std::uint32_t word = 0;
      for (long long k = 0; k < kBytes; ++k) {
        const long long column = at.rest * kBytes + k;
        if (column < products) word |= kept(scale(p.x[at.whole * products + column])) << (8 * k);
      }
      to[i] = word;
    }
  }
};

struct Linear {
  using T = FourBytes;
  using Sum = std::uint32_t;
  using Line = long long;
  using Point = long long;

  ByteLinear p;
  const std::uint32_t *x, *corrections;
  long long rows, columns, batches, words;
  bool whole;  // rows of weights are words

  HEDDLE_DEVICE bool a_dense() const { return true; }
  HEDDLE_DEVICE bool b_dense() const { return true; }
  HEDDLE_DEVICE Line a_line(long long, long long row) const { return row < rows ? row * words : -1; }
  HEDDLE_DEVICE Line b_line(long long, long long column) const {
    return column < columns ? column * p.weights.products : -1;
  }
  HEDDLE_DEVICE Point point(long long k) const { return k < words ? k : -1; }
  HEDDLE_DEVICE Sum a(const Line& line, const Point& k) const {
    return line >= 0 && k >= 0 ? x[line + k] : 0;
  }
  HEDDLE_DEVICE Sum b(const Line& line, const Point& k) const {
    if (line < 0 || k < 0) return 0;
    const signed char* const at = p.weights.weight + line + k * kBytes;
    if (whole) return *reinterpret_cast<const std::uint32_t*>(at);
    return load_word(at, 1, p.weights.products - k * kBytes);
  }
  HEDDLE_DEVICE void finish(long long, long long row, long long column, Sum sum) const {
    p.y[row * columns + column] = result_of(p.weights, corrections, column, sum);
  }
};

// Words of the channels of a group of each pixel: x (n, in..., groups, words) and weights (outputs, kernel..., words).
struct ConvSizes {
  long long words, in_volume, out_volume, taps, of_group;
};

struct ImageWords {
  ByteConv p;
  ConvSizes sizes;
  std::uint32_t* to;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const ByteScale scale = scale_of(p.weights);
    const long long planes = p.groups * sizes.words, count = p.n * planes * sizes.in_volume;
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) {
      const Quotient pixel = divide(i, sizes.in_volume), image = divide(pixel.whole, planes),
                     group = divide(image.rest, sizes.words);
      std::uint32_t word = 0;
      for (long long k = 0; k < kBytes; ++k) {
        const long long channel = group.rest * kBytes + k;
        if (channel >= p.channels) break;
        const long long plane = (image.whole * p.groups + group.whole) * p.channels + channel;
        word |= kept(scale(p.x[plane * sizes.in_volume + pixel.rest])) << (8 * k);
      }
      to[(image.whole * sizes.in_volume + pixel.rest) * planes + image.rest] = word;
    }
  }
};

struct WeightWords {
  ByteConv p;
  ConvSizes sizes;
  std::uint32_t* to;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long count = p.weights.outputs * sizes.taps * sizes.words;
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) {
      const Quotient tap = divide(i, sizes.words), output = divide(tap.whole, sizes.taps);
      const long long channel = tap.rest * kBytes;
      const signed char* const from =
          p.weights.weight + (output.whole * p.channels + channel) * sizes.taps + output.rest;
      to[i] = load_word(from, sizes.taps, p.channels - channel);
    }
  }
};

// Rows: the outputs of a group; columns: elements of all images of results; k: taps and words of channels.
struct Conv {
  using T = FourBytes;
  using Sum = std::uint32_t;
  struct Line {
    long long at;
    Place place;
  };
  struct Point {
    long long k, word;
    Place place;
  };

  ByteConv p;
  ConvSizes sizes;
  const std::uint32_t *x, *weight, *corrections;
  long long rows, columns, batches, terms;

  HEDDLE_DEVICE bool a_dense() const { return true; }
  HEDDLE_DEVICE bool b_dense() const { return sizes.words >= 8; }
  HEDDLE_DEVICE Line a_line(long long group, long long row) const {
    return {row < rows ? (group * rows + row) * terms : -1, {}};
  }
  HEDDLE_DEVICE Line b_line(long long group, long long column) const {
    if (column >= columns) return {-1, {}};
    const Quotient image = divide(column, sizes.out_volume);
    return {(image.whole * sizes.in_volume * p.groups + group) * sizes.words,
            before(times(place_of(image.rest, p.out), p.stride), p.padding)};
  }
  HEDDLE_DEVICE Point point(long long k) const {
    if (k >= terms) return {-1, 0, {}};
    const Quotient tap = divide(k, sizes.words);
    return {k, tap.rest, times(place_of(tap.whole, p.kernel), p.dilation)};
  }
  HEDDLE_DEVICE Sum a(const Line& line, const Point& point) const {
    return line.at >= 0 && point.k >= 0 ? weight[line.at + point.k] : 0;
  }
  HEDDLE_DEVICE Sum b(const Line& line, const Point& point) const {
    if (line.at < 0 || point.k < 0) return 0;
    const Place place = plus(line.place, point.place);
    if (!inside(place, p.in))  // the zero point, four times
      return kept(static_cast<std::uint8_t>(scale_of(p.weights).zero_point)) * 0x01010101u;
    return x[line.at + index_of(place, p.in) * p.groups * sizes.words + point.word];
  }
  HEDDLE_DEVICE void finish(long long group, long long row, long long column, Sum sum) const {
    const Quotient image = divide(column, sizes.out_volume);
    const long long output = group * rows + row;
    p.y[(image.whole * p.weights.outputs + output) * sizes.out_volume + image.rest] =
        result_of(p.weights, corrections, output, sum);
  }
};

// What a product needs, in pieces of words.
struct Space {
  std::uint32_t *corrections, *x, *weight, *parts;
  long long count;
};
Space space_of(std::byte* memory, long long outputs, long long x, long long weight, long long parts) {
  auto* const at = reinterpret_cast<std::uint32_t*>(memory);
  return {at, at + outputs, at + outputs + x, at + outputs + x + weight, outputs + x + weight + parts};
}

template <class P> long long parts_of_product(const P& p, const TilePlan& plan) {
  return plan.parts > 1 ? plan.parts * p.batches * p.rows * p.columns : 0;
}

const char* launch_corrections(void* stream, const ByteWeights& w, std::uint32_t* to) {
  const Teams teams = teams_for(w.outputs, w.products, false);
  return launch_teams(stream, w.outputs, 1, teams, Corrections{w, teams, to});
}

Linear linear_of(const ByteLinear& p) {
  Linear product{};
  product.p = p;
  product.rows = p.rows, product.columns = p.weights.outputs, product.batches = 1;
  product.words = divided(p.weights.products, kBytes);
  product.whole = p.weights.products % kBytes == 0 &&
                  reinterpret_cast<unsigned long long>(p.weights.weight) % kBytes == 0;
  return product;
}
TilePlan plan_of(const Linear& p) { return plan_tiles(p.rows, p.columns, 1, p.words, 1, true); }
Space space_of(const Linear& p, std::byte* memory) {
  return space_of(memory, p.columns, p.rows * p.words, 0, parts_of_product(p, plan_of(p)));
}

Conv conv_of(const ByteConv& p) {
  Conv product{};
  product.p = p;
  product.sizes = {divided(p.channels, kBytes), p.in[0] * p.in[1] * p.in[2], p.out[0] * p.out[1] * p.out[2],
                   p.kernel[0] * p.kernel[1] * p.kernel[2], p.weights.outputs / p.groups};
  product.rows = product.sizes.of_group, product.batches = p.groups;
  product.columns = p.n * product.sizes.out_volume;
  product.terms = product.sizes.taps * product.sizes.words;
  return product;
}
TilePlan plan_of(const Conv& p) { return plan_tiles(p.rows, p.columns, p.batches, p.terms, 1, false); }
Space space_of(const Conv& p, std::byte* memory) {
  const long long planes = p.batches * p.sizes.words;
  return space_of(memory, p.p.weights.outputs, p.p.n * p.sizes.in_volume * planes,
                  p.p.weights.outputs * p.terms, parts_of_product(p, plan_of(p)));
}

}  // namespace

std::size_t byte_linear_bytes(const ByteLinear& p) {
  return static_cast<std::size_t>(space_of(linear_of(p), nullptr).count) * sizeof(std::uint32_t);
}
std::size_t byte_conv_bytes(const ByteConv& p) {
  return static_cast<std::size_t>(space_of(conv_of(p), nullptr).count) * sizeof(std::uint32_t);
}

const char* launch_byte_linear(void* on, const ByteLinear& p, std::byte* memory) {
  Linear product = linear_of(p);
  const TilePlan plan = plan_of(product);
  const Space space = space_of(product, memory);
  product.x = space.x, product.corrections = space.corrections;
  if (const char* problem = launch_corrections(on, p.weights, space.corrections)) return problem;
  if (const char* problem = on_gpu::launch_over(static_cast<cudaStream_t>(on), p.rows * product.words,
                                                RowWords{p, product.words, space.x}))
    return problem;
  return plan.large ? launch_tiles<8>(on, product, plan, space.parts)
                    : launch_tiles<4>(on, product, plan, space.parts);
}

const char* launch_byte_conv(void* on, const ByteConv& p, std::byte* memory) {
  const auto stream = static_cast<cudaStream_t>(on);
  Conv product = conv_of(p);
  const ConvSizes& sizes = product.sizes;
  const Space space = space_of(product, memory);
  product.x = space.x, product.weight = space.weight, product.corrections = space.corrections;
  if (const char* problem = launch_corrections(on, p.weights, space.corrections)) return problem;
  if (const char* problem = on_gpu::launch_over(stream, p.n * p.groups * sizes.words * sizes.in_volume,
                                                ImageWords{p, sizes, space.x}))
    return problem;
  if (const char* problem =
          on_gpu::launch_over(stream, p.weights.outputs * product.terms, WeightWords{p, sizes, space.weight}))
    return problem;
  return launch_tiles<4>(on, product, plan_of(product), space.parts);
}

}  // namespace heddle::cuda_kernels
