#include "cpu/loops/map_half.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "cpu/loops/strided_loop.h"

namespace heddle::cpu_kernels {

namespace {

// Elements of a block: three blocks of f32 stay in the first-level cache.
constexpr std::int64_t kBlock = 1024;
using Block = std::array<float, kBlock>;

// Reads an operand: an array from its memory, or a number, which is the value at every index.
template <class T> struct Reader {
  Reader(const Operand& operand, const Shape& shape)
      : fixed(operand.is_array ? 0.0f : static_cast<float>(operand.scalar.as<T>())),
        data(operand.is_array ? operand.array.data<const T>() : nullptr),
        strides(operand.is_array ? operand.array.strides() : Strides::filled(shape.size(), 0)) {}

  // Writes n elements from `at` on into `into`, as f32, and returns true. False if all have the same value,
  // which is written once.
  bool read(std::int64_t at, std::int64_t step, std::int64_t n, Block& into) const {
    if (!data || step == 0) {
      into[0] = data ? static_cast<float>(data[at]) : fixed;
      return false;
    }
    const T* from = data + at;
    std::array<T, kBlock> gathered;
    if (step != 1) {
      for (std::int64_t i = 0; i < n; ++i) gathered[static_cast<std::size_t>(i)] = from[i * step];
      from = gathered.data();
    }
    widen(from, into.data(), static_cast<std::size_t>(n));
    return true;
  }

  float fixed;
  const T* data;
  Strides strides;
};

template <class T> void write(const Block& block, T* to, std::int64_t step, std::int64_t n) {
  if (step == 1) return narrow(block.data(), to, static_cast<std::size_t>(n));
  std::array<T, kBlock> rounded;
  narrow(block.data(), rounded.data(), static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) to[i * step] = rounded[static_cast<std::size_t>(i)];
}

void write(const std::array<bool, kBlock>& block, bool* to, std::int64_t step, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i * step] = block[static_cast<std::size_t>(i)];
}

// T is the half type, R the type of the run's results.
template <class T, class R> void map_as(const Operand& a, const Operand& b, const NDArray& y, BinaryRun run) {
  const Reader<T> left(a, y.shape()), right(b, y.shape());
  const StridedLoop<3> loop(y.shape(), {left.strides, right.strides, y.strides()});
  const auto steps = loop.inner_steps();
  using Stored = std::conditional_t<std::is_same_v<R, bool>, bool, T>;
  Stored* to = y.data<Stored>();
  loop.run([&](const auto& at, std::int64_t count) {
    Block from_a, from_b;
    std::array<R, kBlock> made;
    for (std::int64_t begin = 0; begin < count; begin += kBlock) {
      const std::int64_t n = std::min(kBlock, count - begin);
      const bool many_a = left.read(at[0] + begin * steps[0], steps[0], n, from_a);
      const bool many_b = right.read(at[1] + begin * steps[1], steps[1], n, from_b);
      if (!many_a && !many_b) {
        std::fill_n(from_a.begin(), n, from_a[0]);
        run(from_a.data(), 1, from_b.data(), 0, made.data(), 1, n);
      } else {
        run(from_a.data(), many_a, from_b.data(), many_b, made.data(), 1, n);
      }
      write(made, to + at[2] + begin * steps[2], steps[2], n);
    }
  });
}

}  // namespace

void map_half(const NDArray& x, const NDArray& y, UnaryRun run) {
  map_half(Operand(x), Operand(Scalar(0)), y,
           [&run](const void* from, std::int64_t step, const void*, std::int64_t, void* to,
                  std::int64_t to_step, std::int64_t n) { run(from, step, to, to_step, n); });
}

void map_half(const Operand& a, const Operand& b, const NDArray& y, BinaryRun run) {
  const bool f16 = (a.is_array ? a : b).array.dtype() == DType::f16;
  if (y.dtype() == DType::boolean)
    return f16 ? map_as<Float16, bool>(a, b, y, run) : map_as<BFloat16, bool>(a, b, y, run);
  f16 ? map_as<Float16, float>(a, b, y, run) : map_as<BFloat16, float>(a, b, y, run);
}

}  // namespace heddle::cpu_kernels
