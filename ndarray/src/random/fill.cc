// Words are drawn in batches, and numbers made of them in loops without branches, so that the compiler makes
// vector code of both. Products are not fused with sums, so that the numbers are the same on every machine.
#include "random/fill.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <type_traits>

#include <heddle/parallel.h>
#include <heddle/random.h>
#include <heddle/random_numbers.h>

namespace heddle {

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  random_numbers::ten_rounds(counter[0], counter[1], counter[2], counter[3], key[0], key[1]);
  return counter;
}

namespace ndarray_detail {

namespace {

using namespace random_numbers;

constexpr std::int64_t kBlocksPerChunk = 8192, kBatch = 64;  // numbers of blocks of four words

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

// Uniform in [0, 1), with as many bits as the type holds; positive_unit() in (0, 1].
float unit(const Words& words, std::int64_t i, float) { return unit_of(words.values[i]); }
double unit(const Words& words, std::int64_t i, double) { return unit_of(words.wide(i)); }
float positive_unit(const Words& words, std::int64_t i, float) { return positive_unit_of(words.values[i]); }
double positive_unit(const Words& words, std::int64_t i, double) { return positive_unit_of(words.wide(i)); }

template <class T> void fill_uniform_as(const NDArray& y, const RandomBlocks& stream, T low, T high, T last) {
  draw<kWordsEach<T>, T>(y, stream, [=](const Words& words, T* to) {
    for (std::int64_t i = 0; i < kNumbers<T>; ++i) {
      to[i] = between(unit(words, i, T{}), low, high, last);
    }
  });
}

template <class T> void fill_normal_as(const NDArray& y, const RandomBlocks& stream, T mean, T stddev) {
  draw<kWordsEach<T>, T>(y, stream, [=](const Words& words, T* to) {
    constexpr std::int64_t kPairs = kNumbers<T> / 2;
    alignas(64) T first[kPairs], second[kPairs];
    for (std::int64_t i = 0; i < kPairs; ++i) {
      first[i] = positive_unit(words, 2 * i, T{});
      second[i] = unit(words, 2 * i + 1, T{});
    }
    for (std::int64_t i = 0; i < kPairs; ++i) {
      box_muller(mean, stddev, first[i], second[i]);
    }
    for (std::int64_t i = 0; i < kPairs; ++i) {
      to[2 * i] = first[i];
      to[2 * i + 1] = second[i];
    }
  });
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

std::uint64_t threshold_of(double probability) {
  return static_cast<std::uint64_t>(std::llround(probability * 0x1p32));
}

void fill_bernoulli(const NDArray& y, RandomBlocks stream, double probability) {
  const std::uint64_t threshold = threshold_of(probability);
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
