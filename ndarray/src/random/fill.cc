// Words are drawn in batches, and numbers made of them in loops without branches, so that the compiler makes
// vector code of both. Products are not fused with sums, so that the numbers are the same on every machine.
#include "random/fill.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>
#include <type_traits>

#include <heddle/parallel.h>
#include <heddle/random.h>

namespace heddle {

namespace {

constexpr std::uint32_t kFirstFactor = 0xD2511F53, kSecondFactor = 0xCD9E8D57;
constexpr std::uint32_t kFirstStep = 0x9E3779B9, kSecondStep = 0xBB67AE85;

[[gnu::always_inline]] inline void ten_rounds(std::uint32_t& a, std::uint32_t& b, std::uint32_t& c,
                                              std::uint32_t& d, std::uint32_t key0, std::uint32_t key1) {
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{kFirstFactor} * a, second = std::uint64_t{kSecondFactor} * c;
    a = static_cast<std::uint32_t>(second >> 32) ^ b ^ key0;
    b = static_cast<std::uint32_t>(second);
    c = static_cast<std::uint32_t>(first >> 32) ^ d ^ key1;
    d = static_cast<std::uint32_t>(first);
    key0 += kFirstStep;
    key1 += kSecondStep;
  }
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  ten_rounds(counter[0], counter[1], counter[2], counter[3], key[0], key[1]);
  return counter;
}

namespace ndarray_detail {

namespace {

constexpr std::int64_t kBlocksPerChunk = 8192, kBatch = 64;  // numbers of blocks of four words

__extension__ using Wide = unsigned __int128;

// The words of kBatch blocks: word i of a draw is in the block i / 4.
struct Words {
  alignas(64) std::uint32_t values[4 * kBatch];

  Words(const RandomBlocks& stream, std::int64_t block) {
    alignas(64) std::uint32_t a[kBatch], b[kBatch], c[kBatch], d[kBatch];
    const std::uint64_t start = stream.start + static_cast<std::uint64_t>(block);
    const auto key0 = static_cast<std::uint32_t>(stream.seed),
               key1 = static_cast<std::uint32_t>(stream.seed >> 32);
    for (std::int64_t i = 0; i < kBatch; ++i) {
      const std::uint64_t at = start + static_cast<std::uint64_t>(i);
      a[i] = static_cast<std::uint32_t>(at);
      b[i] = static_cast<std::uint32_t>(at >> 32);
      c[i] = d[i] = 0;
    }
    for (std::int64_t i = 0; i < kBatch; ++i) ten_rounds(a[i], b[i], c[i], d[i], key0, key1);
    for (std::int64_t i = 0; i < kBatch; ++i) {
      values[4 * i] = a[i];
      values[4 * i + 1] = b[i];
      values[4 * i + 2] = c[i];
      values[4 * i + 3] = d[i];
    }
  }

  std::uint64_t wide(std::int64_t i) const { return values[2 * i] | std::uint64_t{values[2 * i + 1]} << 32; }
};

// make(words, out) writes the 4 * kBatch / words_each numbers of a batch.
template <std::int64_t words_each, class T, class Make>
void draw(const NDArray& y, const RandomBlocks& stream, const Make& make) {
  constexpr std::int64_t per_block = 4 / words_each, per_batch = per_block * kBatch;
  T* to = y.data<T>();
  const std::int64_t n = y.size();
  parallel_for((n + per_block - 1) / per_block, kBlocksPerChunk, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t block = first; block < last; block += kBatch) {
      const Words words(stream, block);
      const std::int64_t at = block * per_block, wanted = std::min(n, last * per_block) - at;
      if (wanted >= per_batch) {
        make(words, to + at);
      } else {
        T rest[per_batch];
        make(words, rest);
        std::copy_n(rest, wanted, to + at);
      }
    }
  });
}

template <class T> constexpr std::int64_t kWordsEach = sizeof(T) / 4;
template <class T> constexpr std::int64_t kNumbers = 4 * kBatch / kWordsEach<T>;

// Uniform in [0, 1), with as many bits as the type holds.
float unit(const Words& words, std::int64_t i, float) {
  return static_cast<float>(words.values[i] >> 8) * 0x1p-24f;
}
double unit(const Words& words, std::int64_t i, double) {
  return static_cast<double>(static_cast<std::int64_t>(words.wide(i) >> 11)) * 0x1p-53;
}

// Uniform in (0, 1], so that it has a logarithm. Small f32 keep all their bits, since they make the tail of
// the normal distribution.
float positive_unit(const Words& words, std::int64_t i, float) {
  return static_cast<float>((static_cast<double>(words.values[i]) + 1) * 0x1p-32);
}
double positive_unit(const Words& words, std::int64_t i, double) { return 1 - unit(words, i, double{}); }

template <class T> void fill_uniform_as(const NDArray& y, const RandomBlocks& stream, T low, T high, T last) {
  draw<kWordsEach<T>, T>(y, stream, [=](const Words& words, T* to) {
    for (std::int64_t i = 0; i < kNumbers<T>; ++i) {
      const T u = unit(words, i, T{}), value = (1 - u) * low + u * high, above = value < low ? low : value;
      to[i] = above > last ? last : above;
    }
  });
}

// Exponent e and mantissa m in [sqrt(1/2), sqrt(2)) of x = 2^e m. The constants are sqrt(1/2), for f64 its high word.
void split(float x, float& e, float& m) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::int32_t above = static_cast<std::int32_t>(bits - 0x3f3504f3u) >> 23;
  e = static_cast<float>(above);
  m = std::bit_cast<float>(bits - (static_cast<std::uint32_t>(above) << 23));
}
void split(double x, double& e, double& m) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::int32_t above =
      static_cast<std::int32_t>(static_cast<std::uint32_t>(bits >> 32) - 0x3fe6a09eu) >> 20;
  e = above;
  m = std::bit_cast<double>(bits - (static_cast<std::uint64_t>(static_cast<std::uint32_t>(above)) << 52));
}

// log(x) = e log(2) + 2 atanh(s), s = (m - 1) / (m + 1), by atanh's series. x is a normal number in (0, 1].
template <class T> [[gnu::always_inline]] inline T log_of(T x) {
  constexpr int kTerms = sizeof(T) == 4 ? 5 : 11;
  // log(2) in two parts, the first with so few bits that e times it is exact.
  constexpr T kHead = sizeof(T) == 4 ? T(0.693359375) : T(0x1.62e42feep-1);
  constexpr T kTail = sizeof(T) == 4 ? T(-2.12194440e-4) : T(0x1.a39ef35793c76p-33);
  T e, m;
  split(x, e, m);
  const T s = (m - 1) / (m + 1), z = s * s;
  T series = T(2) / (2 * kTerms + 1);
#pragma GCC unroll 11
  for (int k = kTerms - 1; k > 0; --k) series = series * z + T(2) / static_cast<T>(2 * k + 1);
  return e * kHead + (2 * s + (s * z * series + e * kTail));
}

// cos and sin of 2 pi u for u in [0, 1): Taylor's series of the angle relative to the nearest quarter.
template <class T> [[gnu::always_inline]] inline void cos_and_sin(T u, T& cosine, T& sine) {
  constexpr int kTerms = sizeof(T) == 4 ? 5 : 9;
  const T quarters = 4 * u;
  const auto nearest = static_cast<std::int32_t>(quarters + T(0.5));
  const T x = (quarters - static_cast<T>(nearest)) * (std::numbers::pi_v<T> / 2), z = x * x;
  T c = 1, s = 1;
#pragma GCC unroll 9
  for (int k = kTerms; k > 0; --k) {
    c = 1 - c * (z * (T(1) / static_cast<T>((2 * k - 1) * (2 * k))));
    s = 1 - s * (z * (T(1) / static_cast<T>((2 * k) * (2 * k + 1))));
  }
  s *= x;
  const bool swapped = nearest & 1;
  cosine = swapped ? s : c;
  sine = swapped ? c : s;
  cosine = (nearest + 1) & 2 ? -cosine : cosine;
  sine = nearest & 2 ? -sine : sine;
}

// Box and Muller (1958): two uniform numbers make two independent normal ones.
template <class T> void fill_normal_as(const NDArray& y, const RandomBlocks& stream, T mean, T stddev) {
  draw<kWordsEach<T>, T>(y, stream, [=](const Words& words, T* to) {
    constexpr std::int64_t kPairs = kNumbers<T> / 2;
    alignas(64) T first[kPairs], second[kPairs];
    for (std::int64_t i = 0; i < kPairs; ++i) {
      first[i] = positive_unit(words, 2 * i, T{});
      second[i] = unit(words, 2 * i + 1, T{});
    }
    for (std::int64_t i = 0; i < kPairs; ++i) {
      const T radius = std::sqrt(-2 * log_of(first[i]));
      T cosine, sine;
      cos_and_sin(second[i], cosine, sine);
      first[i] = mean + stddev * (radius * cosine);
      second[i] = mean + stddev * (radius * sine);
    }
    for (std::int64_t i = 0; i < kPairs; ++i) {
      to[2 * i] = first[i];
      to[2 * i + 1] = second[i];
    }
  });
}

// The high half of word * count: uniform over [0, count), with a bias below count / 2^64.
std::uint64_t below(std::uint64_t word, std::uint64_t count) {
  return static_cast<std::uint64_t>(Wide{word} * count >> 64);
}

}  // namespace

void fill_uniform(const NDArray& y, RandomBlocks stream, double low, double high, double last) {
  if (y.dtype() == DType::f64) return fill_uniform_as<double>(y, stream, low, high, last);
  fill_uniform_as(y, stream, static_cast<float>(low), static_cast<float>(high), static_cast<float>(last));
}

void fill_normal(const NDArray& y, RandomBlocks stream, double mean, double stddev) {
  if (y.dtype() == DType::f64) return fill_normal_as<double>(y, stream, mean, stddev);
  fill_normal_as(y, stream, static_cast<float>(mean), static_cast<float>(stddev));
}

void fill_bernoulli(const NDArray& y, RandomBlocks stream, double probability) {
  const auto threshold = static_cast<std::uint64_t>(std::llround(probability * 0x1p32));
  visit_dtype(y.dtype(), [&]<class T>() {
    draw<1, T>(y, stream, [=](const Words& words, T* to) {
      for (std::int64_t i = 0; i < 4 * kBatch; ++i) to[i] = static_cast<T>(words.values[i] < threshold);
    });
  });
}

void fill_integers(const NDArray& y, RandomBlocks stream, std::int64_t low, std::uint64_t count) {
  visit_dtype(y.dtype(), [&]<class T>() {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      draw<2, T>(y, stream, [=](const Words& words, T* to) {
        for (std::int64_t i = 0; i < 2 * kBatch; ++i) {
          // The numbers are added as unsigned ones, because the range may be wider than an int64.
          to[i] = static_cast<T>(
              static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + below(words.wide(i), count)));
        }
      });
  });
}

// Fisher and Yates's shuffle, in Durstenfeld's order.
void fill_permutation(const NDArray& y, RandomBlocks stream) {
  auto* values = y.data<std::int64_t>();
  const std::int64_t n = y.size();
  std::iota(values, values + n, std::int64_t{0});
  constexpr std::int64_t kNumbersPerBatch = 2 * kBatch;
  for (std::int64_t first = (n - 1) / kNumbersPerBatch * kNumbersPerBatch; first >= 0;
       first -= kNumbersPerBatch) {
    const Words words(stream, first / 2);
    for (std::int64_t i = std::min(n, first + kNumbersPerBatch) - 1; i >= std::max<std::int64_t>(first, 1);
         --i)
      std::swap(values[i], values[below(words.wide(i - first), static_cast<std::uint64_t>(i) + 1)]);
  }
}

}  // namespace ndarray_detail

}  // namespace heddle
