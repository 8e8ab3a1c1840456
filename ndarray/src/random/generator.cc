#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <heddle/array_op.h>
#include <heddle/number_text.h>
#include <heddle/random.h>
#include <heddle/random_replay.h>

#include "arrays/new_array.h"
#include "random/fill.h"
#include "random/gpu_random.h"

namespace heddle {

namespace {

std::string describe(double a, double b) { return std::to_string(a) + " and " + std::to_string(b); }

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

// The dtype of the draw: halves are drawn as f32.
DType drawn_as(DType dtype) { return is_half(dtype) ? DType::f32 : dtype; }

int words_of(DType dtype) { return dtype == DType::f64 ? 2 : 1; }

// The number of blocks of four words that so many elements take.
std::uint64_t blocks_of(std::int64_t elements, int words_per_element) {
  const auto per_block = static_cast<std::uint64_t>(4 / words_per_element);
  return (static_cast<std::uint64_t>(elements) + per_block - 1) / per_block;
}

using ndarray_detail::GpuDraw, ndarray_detail::gpu_uniform, ndarray_detail::gpu_normal,
    ndarray_detail::gpu_bernoulli, ndarray_detail::gpu_integers;

// Launches the kernel that fills y, a new array, inside of the op on the GPU's stream.
template <class Launch>
void on_gpu(const KernelContext& context, const NDArray& y, const RandomDraw& drawn, const Launch& launch) {
  if (y.size() == 0) return;
  const RandomBlocks blocks = drawn.blocks();
  std::byte* const to = y.storage()->device_data(check::AccessKind::write, &y) +
                        y.offset() * static_cast<std::int64_t>(size_of(y.dtype()));
  if (const char* const problem =
          launch(context.stream().native(), GpuDraw{to, y.size(), blocks.seed, blocks.start}))
    throw Error("random numbers on " + context.stream().device().to_string() + ": " + problem);
}

std::uint64_t bits_of_one(DType dtype) {
  return visit_dtype(dtype, []<class T>() {
    const T one = static_cast<T>(1.0f);
    std::uint64_t bits = 0;
    std::memcpy(&bits, &one, sizeof one);
    return bits;
  });
}

}  // namespace

RandomBlocks Generator::take(std::uint64_t blocks) {
  const RandomBlocks taken{seed_, position_};
  position_ += blocks;
  return taken;
}

RandomDraw Generator::draw(std::uint64_t blocks) {
  if (const RandomDraw* const again = DrawScope::next()) [[unlikely]]
    return *again;
  const RandomDraw fresh = fresh_draw(blocks);
  DrawScope::record(fresh);
  return fresh;
}

RandomDraw Generator::fresh_draw(std::uint64_t blocks) {
  const RandomBlocks taken = take(blocks);
  if (!is_capturing()) [[likely]]
    return RandomDraw(taken);
  // The default generator ends with its thread, and another thread that launches has its own.
  if (this == &default_generator())
    return RandomDraw(
        taken, launch_slot<RandomBlocks>(taken, [blocks] { return default_generator().take(blocks); }));
  if (!handle_.self) handle_.self = std::make_shared<Generator*>(this);
  return RandomDraw(taken, launch_slot<RandomBlocks>(taken, [self = handle_.self, blocks, taken] {
                      return *self ? (*self)->take(blocks) : taken;
                    }));
}

std::vector<Generator> Generator::split(int parts) {
  if (parts < 1) throw InvalidArgument("split: parts is " + std::to_string(parts) + "; wanted 1 or more");
  if (is_capturing())
    throw Error(
        "split: the seeds of the parts would be the same in each launch; call it outside of the capture");
  const std::uint64_t block = draw(1).blocks().start;
  const auto low = [](std::uint64_t word) { return static_cast<std::uint32_t>(word); };
  const auto high = [](std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); };
  std::vector<Generator> made;
  for (std::uint32_t part = 0; part < static_cast<std::uint32_t>(parts); ++part) {
    // Draws of numbers have 0 in the last two words of the counter, so no draw uses the words that become
    // seeds.
    const auto words = philox({low(block), high(block), part, 1}, {low(seed_), high(seed_)});
    made.emplace_back(words[0] | std::uint64_t{words[1]} << 32);
  }
  return made;
}

Generator Generator::jumped(std::int64_t times) const {
  constexpr std::uint64_t kJump = std::uint64_t{1} << 40;
  if (times < 0 || times >= (std::int64_t{1} << 24)) {
    throw InvalidArgument("jumped: times is " + std::to_string(times) + "; wanted 0 to " +
                          std::to_string((std::int64_t{1} << 24) - 1));
  }
  Generator further = *this;
  further.position_ += static_cast<std::uint64_t>(times) * kJump;
  return further;
}

NDArray Generator::uniform(Shape shape, double low, double high, DType dtype, Device device, Where where) {
  const CallSite site(where);
  check_floating("uniform", dtype);
  if (!(low <= high) || !finite_as(dtype, low) || !finite_as(dtype, high)) {
    throw InvalidArgument(std::string("uniform: wants low <= high, finite as ") + name_of(dtype) + ", not " +
                          describe(low, high));
  }
  NDArray result = ndarray_detail::new_array("uniform", shape, drawn_as(dtype), device);
  const RandomDraw drawn = draw(blocks_of(result.size(), words_of(dtype)));
  const double last = last_before(dtype, low, high);
  array_push("uniform", {}, {result}, [=](const KernelContext& context) {
    if (context.on_stream()) {
      return on_gpu(context, result, drawn, [=](void* stream, const GpuDraw& to) {
        return gpu_uniform(stream, to, result.dtype() == DType::f64, low, high, last);
      });
    }
    ndarray_detail::fill_uniform(result, drawn.blocks(), low, high, last);
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
  const RandomDraw drawn = draw(blocks_of(result.size(), words_of(dtype)));
  array_push("normal", {}, {result}, [=](const KernelContext& context) {
    if (context.on_stream()) {
      return on_gpu(context, result, drawn, [=](void* stream, const GpuDraw& to) {
        return gpu_normal(stream, to, result.dtype() == DType::f64, mean, stddev);
      });
    }
    ndarray_detail::fill_normal(result, drawn.blocks(), mean, stddev);
  });
  return is_half(dtype) ? result.astype(dtype) : result;
}

NDArray Generator::bernoulli(Shape shape, double probability, DType dtype, Device device, Where where) {
  const CallSite site(where);
  if (!(probability >= 0 && probability <= 1)) {
    throw InvalidArgument("bernoulli: wants a probability in [0, 1], not " + number_text(probability));
  }
  NDArray result = ndarray_detail::new_array("bernoulli", shape, dtype, device);
  const RandomDraw drawn = draw(blocks_of(result.size(), 1));
  array_push("bernoulli", {}, {result}, [=](const KernelContext& context) {
    if (context.on_stream()) {
      return on_gpu(context, result, drawn, [=](void* stream, const GpuDraw& to) {
        return gpu_bernoulli(stream, to, static_cast<int>(size_of(result.dtype())),
                             bits_of_one(result.dtype()), ndarray_detail::threshold_of(probability));
      });
    }
    ndarray_detail::fill_bernoulli(result, drawn.blocks(), probability);
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
  const RandomDraw drawn = draw(blocks_of(result.size(), 2));
  const std::uint64_t count = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  array_push("integers", {}, {result}, [=](const KernelContext& context) {
    if (context.on_stream()) {
      return on_gpu(context, result, drawn, [=](void* stream, const GpuDraw& to) {
        return gpu_integers(stream, to, static_cast<int>(size_of(result.dtype())), low, count);
      });
    }
    ndarray_detail::fill_integers(result, drawn.blocks(), low, count);
  });
  return result;
}

NDArray Generator::permutation(std::int64_t n, Device device, Where where) {
  const CallSite site(where);
  if (n < 0) throw InvalidArgument("permutation: n is " + std::to_string(n) + "; wanted 0 or more");
  // The shuffle has an order, and so it is the CPU's.
  if (device.kind == DeviceKind::cuda) return permutation(n, cpu(), where).copy_to(device);
  NDArray result = ndarray_detail::new_array("permutation", {n}, DType::i64, device);
  const RandomDraw drawn = draw(blocks_of(n, 2));
  array_push("permutation", {}, {result}, [=] { ndarray_detail::fill_permutation(result, drawn.blocks()); });
  return result;
}

Generator& default_generator() {
  thread_local Generator generator;
  return generator;
}

void manual_seed(std::uint64_t seed) { default_generator() = Generator(seed); }

}  // namespace heddle
