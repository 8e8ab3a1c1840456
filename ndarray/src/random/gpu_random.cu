// Random numbers on a GPU: a thread makes the numbers of one block of four words, as fill.cc, which it writes at once.
#include <heddle/random_numbers.h>

#include "gpu/layout.h"
#include "random/gpu_random.h"

namespace heddle::ndarray_detail {
namespace {

using namespace random_numbers;

struct Words {
  std::uint32_t values[4];
  HEDDLE_DEVICE std::uint64_t wide(int i) const {
    return values[2 * i] | std::uint64_t{values[2 * i + 1]} << 32;
  }
};

HEDDLE_DEVICE inline Words words_at(const GpuDraw& draw, long long block) {
  const std::uint64_t at = draw.start + static_cast<std::uint64_t>(block);
  Words words{{static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at >> 32), 0, 0}};
  ten_rounds(words.values[0], words.values[1], words.values[2], words.values[3],
             static_cast<std::uint32_t>(draw.seed), static_cast<std::uint32_t>(draw.seed >> 32));
  return words;
}

template <class T, int count> struct alignas(sizeof(T) * count) Pack { T values[count]; };

// Make has the members `per_block` and operator()(words, to), which makes so many numbers of type T.
template <class T, class Make> struct Fill {
  GpuDraw draw;
  Make make;
  bool packs;  // the first element is aligned as a pack
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    constexpr int kEach = Make::per_block;
    const long long blocks = (draw.count + kEach - 1) / kEach;
    T* const to = static_cast<T*>(draw.to);
    for (long long block = thread.global_index(); block < blocks; block += thread.global_size()) {
      Pack<T, kEach> made;
      make(words_at(draw, block), made.values);
      const long long first = block * kEach;
      if (packs && first + kEach <= draw.count) {
        reinterpret_cast<Pack<T, kEach>*>(to)[block] = made;
      } else {
        for (int i = 0; i < kEach; ++i)
          if (first + i < draw.count) to[first + i] = made.values[i];
      }
    }
  }
};

template <class T, class Make> const char* fill(void* stream, const GpuDraw& draw, const Make& make) {
  constexpr int kEach = Make::per_block;
  const bool packs = reinterpret_cast<std::uintptr_t>(draw.to) % sizeof(Pack<T, kEach>) == 0;
  return on_gpu::launch_over(static_cast<cudaStream_t>(stream), (draw.count + kEach - 1) / kEach,
                             Fill<T, Make>{draw, make, packs});
}

HEDDLE_DEVICE inline float unit_at(const Words& words, int i, float) { return unit_of(words.values[i]); }
HEDDLE_DEVICE inline double unit_at(const Words& words, int i, double) { return unit_of(words.wide(i)); }
HEDDLE_DEVICE inline float positive_at(const Words& words, int i, float) {
  return positive_unit_of(words.values[i]);
}
HEDDLE_DEVICE inline double positive_at(const Words& words, int i, double) {
  return positive_unit_of(words.wide(i));
}

template <class T> struct Uniform {
  static constexpr int per_block = 16 / sizeof(T);
  T low, high, last;
  HEDDLE_DEVICE void operator()(const Words& words, T* to) const {
    for (int i = 0; i < per_block; ++i) to[i] = between(unit_at(words, i, T{}), low, high, last);
  }
};

template <class T> struct Normal {
  static constexpr int per_block = 16 / sizeof(T);
  T mean, stddev;
  HEDDLE_DEVICE void operator()(const Words& words, T* to) const {
    for (int i = 0; i < per_block; i += 2) {
      to[i] = positive_at(words, i, T{});
      to[i + 1] = unit_at(words, i + 1, T{});
      box_muller(mean, stddev, to[i], to[i + 1]);
    }
  }
};

template <class Bits> struct Bernoulli {
  static constexpr int per_block = 4;
  Bits one;
  std::uint64_t threshold;
  HEDDLE_DEVICE void operator()(const Words& words, Bits* to) const {
    for (int i = 0; i < per_block; ++i) to[i] = words.values[i] < threshold ? one : Bits{0};
  }
};

template <class Bits> struct Integers {
  static constexpr int per_block = 2;
  std::uint64_t low, count;
  HEDDLE_DEVICE void operator()(const Words& words, Bits* to) const {
    for (int i = 0; i < per_block; ++i) to[i] = static_cast<Bits>(low + below(words.wide(i), count));
  }
};

template <class Bits>
const char* bernoulli_of(void* stream, const GpuDraw& draw, std::uint64_t one, std::uint64_t threshold) {
  return fill<Bits>(stream, draw, Bernoulli<Bits>{static_cast<Bits>(one), threshold});
}
template <class Bits>
const char* integers_of(void* stream, const GpuDraw& draw, std::int64_t low, std::uint64_t count) {
  return fill<Bits>(stream, draw, Integers<Bits>{static_cast<std::uint64_t>(low), count});
}

}  // namespace

const char* gpu_uniform(void* stream, const GpuDraw& draw, bool wide, double low, double high, double last) {
  if (wide) return fill<double>(stream, draw, Uniform<double>{low, high, last});
  return fill<float>(
      stream, draw,
      Uniform<float>{static_cast<float>(low), static_cast<float>(high), static_cast<float>(last)});
}

const char* gpu_normal(void* stream, const GpuDraw& draw, bool wide, double mean, double stddev) {
  if (wide) return fill<double>(stream, draw, Normal<double>{mean, stddev});
  return fill<float>(stream, draw, Normal<float>{static_cast<float>(mean), static_cast<float>(stddev)});
}

const char* gpu_bernoulli(void* stream, const GpuDraw& draw, int size, std::uint64_t one,
                          std::uint64_t threshold) {
  if (size == 8) return bernoulli_of<std::uint64_t>(stream, draw, one, threshold);
  if (size == 4) return bernoulli_of<std::uint32_t>(stream, draw, one, threshold);
  if (size == 2) return bernoulli_of<std::uint16_t>(stream, draw, one, threshold);
  return bernoulli_of<std::uint8_t>(stream, draw, one, threshold);
}

const char* gpu_integers(void* stream, const GpuDraw& draw, int size, std::int64_t low, std::uint64_t count) {
  if (size == 8) return integers_of<std::uint64_t>(stream, draw, low, count);
  if (size == 4) return integers_of<std::uint32_t>(stream, draw, low, count);
  if (size == 2) return integers_of<std::uint16_t>(stream, draw, low, count);
  return integers_of<std::uint8_t>(stream, draw, low, count);
}

}  // namespace heddle::ndarray_detail
