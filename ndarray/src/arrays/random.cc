#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include <heddle/array_op.h>
#include <heddle/parallel.h>
#include <heddle/random.h>

#include "arrays/new_array.h"

namespace heddle {

namespace {

constexpr std::int64_t kBlocksPerChunk = 8192;

using Words = std::array<std::uint32_t, 4>;
__extension__ using Wide = unsigned __int128;

// The random words of one generator: block n has four of them.
struct PhiloxStream {
  std::uint64_t seed, start;
  Words operator()(std::int64_t block) const {
    const std::uint64_t at = start + static_cast<std::uint64_t>(block);
    return philox({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at >> 32), 0, 0},
                  {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  }
};

std::uint64_t word64(const Words& words, std::size_t i) {
  return words[2 * i] | std::uint64_t{words[2 * i + 1]} << 32;
}

std::string describe(double a, double b) { return std::to_string(a) + " and " + std::to_string(b); }

// values[i .. i+per_block) = make(words of block i / per_block)[0 .. per_block).
template <std::size_t per_block, class T, class Make>
void draw(T* values, std::int64_t count, const PhiloxStream& stream, const Make& make) {
  constexpr auto per = static_cast<std::int64_t>(per_block);
  parallel_for((count + per - 1) / per, kBlocksPerChunk, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t block = first; block < last; ++block) {
      const std::array<T, per_block> made = make(stream(block));
      std::copy_n(made.begin(), std::min(per, count - block * per), values + block * per);
    }
  });
}

// Uniform in [0, 1), with as many bits as the type holds.
float unit(const Words& words, std::size_t i, float) { return static_cast<float>(words[i] >> 8) * 0x1p-24f; }
double unit(const Words& words, std::size_t i, double) {
  return static_cast<double>(word64(words, i) >> 11) * 0x1p-53;
}

// Uniform in (0, 1], so that it has a logarithm. Small numbers have all their bits: they become the far tail.
float positive_unit(const Words& words, std::size_t i, float) {
  return static_cast<float>((static_cast<double>(words[i]) + 1) * 0x1p-32);
}
double positive_unit(const Words& words, std::size_t i, double) { return 1 - unit(words, i, double{}); }

template <class T> constexpr std::size_t kPerBlock = 16 / sizeof(T);

// The largest number of a type below `high`.
template <class T> double before(double high) {
  if constexpr (is_half_type<T>) {
    const T near(high);
    if (static_cast<double>(near) < high) return static_cast<double>(near);
    if (static_cast<float>(near) == 0) return static_cast<double>(T::from_bits(0x8001));
    return static_cast<double>(T::from_bits(static_cast<std::uint16_t>(near.bits + (high > 0 ? -1 : 1))));
  } else {
    return std::nextafter(static_cast<T>(high), -std::numeric_limits<T>::infinity());
  }
}

// Clamped to `last`: rounding may reach `high`, which is excluded.
template <class T>
void draw_uniform(const NDArray& result, const PhiloxStream& stream, T low, T high, T last) {
  draw<kPerBlock<T>>(result.data<T>(), result.size(), stream, [=](const Words& words) {
    std::array<T, kPerBlock<T>> made;
    for (std::size_t i = 0; i < made.size(); ++i) {
      const T u = unit(words, i, T{});
      made[i] = std::clamp((1 - u) * low + u * high, low, last);
    }
    return made;
  });
}

// Box and Muller (1958): two uniform numbers make two independent normal ones.
template <class T> void draw_normal(const NDArray& result, const PhiloxStream& stream, T mean, T stddev) {
  draw<kPerBlock<T>>(result.data<T>(), result.size(), stream, [=](const Words& words) {
    std::array<T, kPerBlock<T>> made;
    for (std::size_t i = 0; i < made.size(); i += 2) {
      const T radius = std::sqrt(-2 * std::log(positive_unit(words, i, T{})));
      const T angle = 2 * std::numbers::pi_v<T> * unit(words, i + 1, T{});
      made[i] = mean + stddev * (radius * std::cos(angle));
      made[i + 1] = mean + stddev * (radius * std::sin(angle));
    }
    return made;
  });
}

// The high half of word * count: uniform over [0, count), with a bias below count / 2^64.
std::uint64_t below(std::uint64_t word, std::uint64_t count) {
  return static_cast<std::uint64_t>(Wide{word} * count >> 64);
}

template <class T>
void draw_integers(const NDArray& result, const PhiloxStream& stream, std::int64_t low, std::uint64_t count) {
  draw<2>(result.data<T>(), result.size(), stream, [=](const Words& words) {
    std::array<T, 2> made;
    for (std::size_t i = 0; i < made.size(); ++i) {
      // Unsigned, because the range may be wider than an int64.
      made[i] = static_cast<T>(
          static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + below(word64(words, i), count)));
    }
    return made;
  });
}

void check_fits(std::int64_t low, std::int64_t high, DType dtype) {
  visit_dtype(dtype, [=]<class T>() {
    if constexpr (!std::is_integral_v<T> || std::is_same_v<T, bool>) {
      throw InvalidArgument(std::string("integers: makes integers, not ") + name_of(dtype));
    } else if (!std::in_range<T>(low) || !std::in_range<T>(high - 1)) {
      throw InvalidArgument("integers: " + std::to_string(low) + " up to " + std::to_string(high) +
                            " does not fit " + name_of(dtype));
    }
  });
}

void check_floating(const char* name, DType dtype) {
  if (!is_floating(dtype)) {
    throw InvalidArgument(std::string(name) + ": makes f32, f64, f16 and bf16, not " + name_of(dtype));
  }
}

bool finite_as(DType dtype, double value) {
  return visit_dtype(dtype,
                     [=]<class T>() { return std::isfinite(static_cast<double>(static_cast<T>(value))); });
}

double last_before(DType dtype, double low, double high) {
  const double last = visit_dtype(dtype, [=]<class T>() -> double {
    if constexpr (std::is_integral_v<T>)
      return high;
    else
      return before<T>(high);
  });
  return std::max(last, low);
}

// Halves are drawn as f32.
DType drawn_as(DType dtype) { return is_half(dtype) ? DType::f32 : dtype; }

int words_of(DType dtype) { return dtype == DType::f64 ? 2 : 1; }

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return counter;
}

std::uint64_t Generator::take(std::int64_t elements, int words_per_element) {
  const auto per_block = static_cast<std::uint64_t>(4 / words_per_element);
  const std::uint64_t start = position_;
  position_ += (static_cast<std::uint64_t>(elements) + per_block - 1) / per_block;
  return start;
}

NDArray Generator::uniform(Shape shape, double low, double high, DType dtype, Device device, Where where) {
  const CallSite site(where);
  check_floating("uniform", dtype);
  if (!(low <= high) || !finite_as(dtype, low) || !finite_as(dtype, high)) {
    throw InvalidArgument(std::string("uniform: wants low <= high, finite as ") + name_of(dtype) + ", not " +
                          describe(low, high));
  }
  NDArray result = ndarray_detail::new_array("uniform", shape, drawn_as(dtype), device);
  const PhiloxStream stream{seed_, take(result.size(), words_of(dtype))};
  const double last = last_before(dtype, low, high);
  array_push("uniform", {}, {result}, [=] {
    result.dtype() == DType::f64 ? draw_uniform<double>(result, stream, low, high, last)
                                 : draw_uniform<float>(result, stream, static_cast<float>(low),
                                                       static_cast<float>(high), static_cast<float>(last));
  });
  return is_half(dtype) ? result.astype(dtype) : result;
}

NDArray Generator::normal(Shape shape, double mean, double stddev, DType dtype, Device device, Where where) {
  const CallSite site(where);
  check_floating("normal", dtype);
  if (!(stddev >= 0) || !finite_as(dtype, mean) || !finite_as(dtype, stddev)) {
    throw InvalidArgument(std::string("normal: wants a mean and a stddev >= 0, finite as ") + name_of(dtype) +
                          ", not " + describe(mean, stddev));
  }
  NDArray result = ndarray_detail::new_array("normal", shape, drawn_as(dtype), device);
  const PhiloxStream stream{seed_, take(result.size(), words_of(dtype))};
  array_push("normal", {}, {result}, [=] {
    result.dtype() == DType::f64
        ? draw_normal<double>(result, stream, mean, stddev)
        : draw_normal<float>(result, stream, static_cast<float>(mean), static_cast<float>(stddev));
  });
  return is_half(dtype) ? result.astype(dtype) : result;
}

NDArray Generator::bernoulli(Shape shape, double probability, DType dtype, Device device, Where where) {
  const CallSite site(where);
  if (!(probability >= 0 && probability <= 1)) {
    throw InvalidArgument("bernoulli: wants a probability in [0, 1], not " + std::to_string(probability));
  }
  NDArray result = ndarray_detail::new_array("bernoulli", shape, dtype, device);
  const PhiloxStream stream{seed_, take(result.size(), 1)};
  const auto threshold = static_cast<std::uint64_t>(std::llround(probability * 0x1p32));
  array_push("bernoulli", {}, {result}, [=] {
    visit_dtype(dtype, [&]<class T>() {
      draw<4>(result.data<T>(), result.size(), stream, [=](const Words& words) {
        std::array<T, 4> made;
        for (std::size_t i = 0; i < 4; ++i) made[i] = static_cast<T>(words[i] < threshold);
        return made;
      });
    });
  });
  return result;
}

NDArray Generator::integers(Shape shape, std::int64_t low, std::int64_t high, DType dtype, Device device,
                            Where where) {
  const CallSite site(where);
  if (low >= high) {
    throw InvalidArgument("integers: wants low < high, not " + std::to_string(low) + " and " +
                          std::to_string(high));
  }
  check_fits(low, high, dtype);
  NDArray result = ndarray_detail::new_array("integers", shape, dtype, device);
  const PhiloxStream stream{seed_, take(result.size(), 2)};
  const std::uint64_t count = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  array_push("integers", {}, {result}, [=] {
    visit_dtype(dtype, [&]<class T>() {
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
        draw_integers<T>(result, stream, low, count);
    });
  });
  return result;
}

NDArray Generator::permutation(std::int64_t n, Device device, Where where) {
  const CallSite site(where);
  if (n < 0) throw InvalidArgument("permutation: n is " + std::to_string(n) + "; wanted 0 or more");
  NDArray result = ndarray_detail::new_array("permutation", {n}, DType::i64, device);
  const PhiloxStream stream{seed_, take(n, 2)};
  // Fisher and Yates's shuffle, in Durstenfeld's order.
  array_push("permutation", {}, {result}, [=] {
    std::int64_t* values = result.data<std::int64_t>();
    std::iota(values, values + n, std::int64_t{0});
    for (std::int64_t i = n - 1; i > 0; --i) {
      const std::uint64_t word = word64(stream(i / 2), static_cast<std::size_t>(i % 2));
      std::swap(values[i], values[below(word, static_cast<std::uint64_t>(i) + 1)]);
    }
  });
  return result;
}

Generator& default_generator() {
  thread_local Generator generator;
  return generator;
}

void manual_seed(std::uint64_t seed) { default_generator() = Generator(seed); }

}  // namespace heddle
