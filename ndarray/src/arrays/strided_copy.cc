// The loops are reordered so that the target is written in memory order, and dimensions that are contiguous
// with each other in both operands are merged. The remaining loops are cut into blocks of two dimensions: the
// dimension that is dense in the target and, if another dimension is dense in the source, that one. So a
// transpose works in tiles.
#include "arrays/strided_copy.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include <heddle/parallel.h>

#include "dtype/convert.h"

namespace heddle::ndarray_detail {

namespace {

constexpr std::int64_t kChunk = 32 * 1024;     // elements of a parallel chunk
constexpr std::int64_t kParallel = 64 * 1024;  // with fewer elements the calling thread copies alone
constexpr std::int64_t kTile = 16;             // one cache line of f32

// One loop: its length, and how far a step moves in the target and in the source, in elements.
struct Loop {
  std::int64_t n = 1, target = 0, source = 0;
};

struct Block {
  Loop rows, row;
};

using BlockKernel = void (*)(std::byte* target, const std::byte* source, const Block& block);

// Converts f64, i32 and i64 to f32 on the way to a half type, such that the second rounding is the only one.
struct OddFloat {
  float value;
};

template <class To, class From> To converted(From x) {
  if constexpr (std::is_same_v<To, OddFloat>) {
    return {f32_for_half(x)};
  } else {
    return convert<To>(x);
  }
}

template <class To, class From> void copy_dense(To* target, const From* source, std::int64_t n) {
  if constexpr (std::is_same_v<To, From>) {
    std::memcpy(target, source, static_cast<std::size_t>(n) * sizeof(To));
  } else if constexpr (is_half_type<From>) {
    widen(source, target, static_cast<std::size_t>(n));
  } else if constexpr (is_half_type<To>) {
    narrow(source, target, static_cast<std::size_t>(n));
  } else {
    for (std::int64_t i = 0; i < n; ++i) target[i] = converted<To>(source[i]);
  }
}

template <class To, class From> void copy_row(To* target, const From* source, const Loop& loop) {
  const auto [n, d, s] = loop;
  if (d == 1 && s == 1) {
    copy_dense(target, source, n);
  } else if (d == 1 && s == 0) {
    std::fill_n(target, n, converted<To>(*source));
  } else if (d == 1) {
    for (std::int64_t i = 0; i < n; ++i) target[i] = converted<To>(source[i * s]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) target[i * d] = converted<To>(source[i * s]);
  }
}

template <class To, class From>
void copy_block(std::byte* target_bytes, const std::byte* source_bytes, const Block& block) {
  auto* target = reinterpret_cast<To*>(target_bytes);
  auto* source = reinterpret_cast<const From*>(source_bytes);
  const auto& [rows, row] = block;
  const bool tiled = rows.n > 1 && std::abs(rows.source) < std::abs(row.source);
  const std::int64_t width = tiled ? kTile : row.n;
  const std::int64_t height = tiled ? kTile : rows.n;
  for (std::int64_t top = 0; top < rows.n; top += height) {
    for (std::int64_t left = 0; left < row.n; left += width) {
      const Loop piece{std::min(width, row.n - left), row.target, row.source};
      for (std::int64_t i = top; i < std::min(top + height, rows.n); ++i) {
        copy_row(target + i * rows.target + left * row.target, source + i * rows.source + left * row.source,
                 piece);
      }
    }
  }
}

// Integers are copied by few kernels. The target gets the low bits, and only a wider target shows the
// source's sign. Other types map to themselves: Clang instantiates the alias in discarded branches too.
template <class To>
using LowBits = typename std::conditional_t<std::is_integral_v<To> && !std::is_same_v<To, bool>,
                                            std::make_unsigned<To>, std::type_identity<To>>::type;
template <class To, class From>
using BitsFor = typename std::conditional_t<std::is_integral_v<From> &&
                                                (std::is_same_v<To, bool> || sizeof(To) <= sizeof(From)),
                                            std::make_unsigned<From>, std::type_identity<From>>::type;

template <class To> BlockKernel kernel_to(DType source) {
  return visit_number(source, []<class T>() -> BlockKernel {
    using From = std::conditional_t<std::is_same_v<T, bool>, BoolByte, T>;
    if constexpr (std::is_same_v<To, OddFloat> && (sizeof(From) <= 2 || std::is_same_v<From, float>)) {
      return copy_block<float, From>;  // f32 holds every value of From exactly
    } else if constexpr (std::is_integral_v<To> && !std::is_floating_point_v<From>) {
      return copy_block<LowBits<To>, BitsFor<To, From>>;
    } else {
      return copy_block<To, From>;
    }
  });
}

// The kernels that copy each part: one kernel, or two by way of f32 if one side is a half type. That way
// fewer kernels are built.
struct Kernels {
  BlockKernel first, second = nullptr;
};

Kernels kernels_for(DType target, DType source) {
  const auto from_half = source == DType::f16 ? copy_block<float, Float16> : copy_block<float, BFloat16>;
  const auto to_half = target == DType::f16 ? copy_block<Float16, float> : copy_block<BFloat16, float>;
  if (is_half(target) && target == source) return {copy_block<std::uint16_t, std::uint16_t>};
  if (is_half(source) && target == DType::f32) return {from_half};
  if (is_half(target) && source == DType::f32) return {to_half};
  if (is_half(target)) return {is_half(source) ? from_half : kernel_to<OddFloat>(source), to_half};
  const BlockKernel direct =
      visit_number(target, [=]<class To>() { return kernel_to<To>(is_half(source) ? DType::f32 : source); });
  return is_half(source) ? Kernels{from_half, direct} : Kernels{direct};
}

// The loops of one copy, outermost first, and its first element. Loops with negative steps are reversed.
struct LoopNest {
  std::array<Loop, kMaxDims> loops;
  int size = 0;
  std::int64_t target_start = 0, source_start = 0;

  Loop& at(int i) { return loops[static_cast<std::size_t>(i)]; }
  void collect(const Shape& shape, const Strides& target, const Strides& source);
  void merge();
  Block take_block();
};

void LoopNest::collect(const Shape& shape, const Strides& target, const Strides& source) {
  for (int i = 0; i < shape.size(); ++i) {
    Loop loop{shape[i], target[i], source[i]};
    if (loop.n == 1) continue;
    if (loop.target < 0) {
      target_start += (loop.n - 1) * loop.target;
      source_start += (loop.n - 1) * loop.source;
      loop = {loop.n, -loop.target, -loop.source};
    }
    int place = size++;
    for (; place > 0 && at(place - 1).target < loop.target; --place) at(place) = at(place - 1);
    at(place) = loop;
  }
}

void LoopNest::merge() {
  int kept = 0;
  for (int i = 1; i < size; ++i) {
    Loop& outer = at(kept);
    const Loop& inner = at(i);
    if (outer.target == inner.n * inner.target && outer.source == inner.n * inner.source) {
      outer = {outer.n * inner.n, inner.target, inner.source};
    } else {
      at(++kept) = inner;
    }
  }
  size = std::min(size, kept + 1);
}

// Removes two loops, which become the block: the innermost one, and the one in which the source is densest.
Block LoopNest::take_block() {
  Block block;
  if (size == 0) return block;
  block.row = at(--size);
  if (size == 0) return block;
  int rows = size - 1;
  for (int i = 0; i < size; ++i) {
    if (std::abs(at(i).source) < std::abs(at(rows).source)) rows = i;
  }
  if (std::abs(at(rows).source) >= std::abs(block.row.source)) rows = size - 1;
  std::rotate(loops.begin() + rows, loops.begin() + rows + 1, loops.begin() + size);
  block.rows = at(--size);
  return block;
}

std::int64_t pieces(std::int64_t count, std::int64_t length) { return (count + length - 1) / length; }

// The whole copy as a list of units; a unit is a part of one block, cut so that it has at most kChunk elements.
struct CopyPlan {
  LoopNest nest;  // the loops outside the block
  Block block;
  std::int64_t units = 1;
  Kernels kernels;
  std::byte* target;
  const std::byte* source;
  std::int64_t target_size, source_size;

  void cut();
  void run(std::int64_t begin, std::int64_t end) const;
  void run_part(std::byte* to, const std::byte* from, const Block& part) const;
};

void CopyPlan::cut() {
  for (int i = 0; i < nest.size; ++i) units *= nest.at(i).n;
  const std::int64_t width = std::min(block.row.n, kChunk);
  const std::int64_t height = std::min(block.rows.n, std::max<std::int64_t>(kChunk / width, 1));
  units *= pieces(block.rows.n, height) * pieces(block.row.n, width);
}

void CopyPlan::run(std::int64_t begin, std::int64_t end) const {
  const std::int64_t width = std::min(block.row.n, kChunk);
  const std::int64_t height = std::min(block.rows.n, std::max<std::int64_t>(kChunk / width, 1));
  const std::int64_t across = pieces(block.row.n, width), down = pieces(block.rows.n, height);
  for (std::int64_t unit = begin; unit < end; ++unit) {
    std::int64_t rest = unit;
    const std::int64_t left = rest % across * width;
    rest /= across;
    const std::int64_t top = rest % down * height;
    rest /= down;
    std::int64_t to = nest.target_start + top * block.rows.target + left * block.row.target;
    std::int64_t from = nest.source_start + top * block.rows.source + left * block.row.source;
    for (int i = nest.size - 1; i >= 0; --i) {
      const Loop& loop = nest.loops[static_cast<std::size_t>(i)];
      to += rest % loop.n * loop.target;
      from += rest % loop.n * loop.source;
      rest /= loop.n;
    }
    Block part = block;
    part.row.n = std::min(width, block.row.n - left);
    part.rows.n = std::min(height, block.rows.n - top);
    run_part(target + to * target_size, source + from * source_size, part);
  }
}

void CopyPlan::run_part(std::byte* to, const std::byte* from, const Block& part) const {
  if (!kernels.second) return kernels.first(to, from, part);
  constexpr std::int64_t kMost = 1024;
  float between[kMost];
  auto* bytes = reinterpret_cast<std::byte*>(between);
  for (std::int64_t row = 0; row < part.rows.n; ++row) {
    for (std::int64_t at = 0; at < part.row.n; at += kMost) {
      const std::int64_t n = std::min(kMost, part.row.n - at);
      const std::int64_t d = row * part.rows.target + at * part.row.target;
      const std::int64_t s = row * part.rows.source + at * part.row.source;
      kernels.first(bytes, from + s * source_size, {{}, {n, 1, part.row.source}});
      kernels.second(to + d * target_size, bytes, {{}, {n, part.row.target, 1}});
    }
  }
}

}  // namespace

Source source_of(const NDArray& array) {
  return {array.data<const std::byte>(), array.dtype(), array.strides()};
}

Target target_of(const NDArray& array) { return {array.data<std::byte>(), array.dtype(), array.strides()}; }

void strided_copy(const Shape& shape, const Target& target, const Source& source) {
  const std::int64_t count = element_count(shape);
  if (count == 0) return;
  CopyPlan plan;
  plan.kernels = kernels_for(target.dtype, source.dtype);
  plan.target = target.data;
  plan.source = source.data;
  plan.target_size = static_cast<std::int64_t>(size_of(target.dtype));
  plan.source_size = static_cast<std::int64_t>(size_of(source.dtype));
  plan.nest.collect(shape, target.strides, source.strides);
  plan.nest.merge();
  plan.block = plan.nest.take_block();
  plan.cut();
  if (count < kParallel) return plan.run(0, plan.units);
  const std::int64_t grain =
      std::max<std::int64_t>(kChunk / std::max<std::int64_t>(count / plan.units, 1), 1);
  parallel_for(plan.units, grain, [&plan](std::int64_t begin, std::int64_t end) { plan.run(begin, end); });
}

}  // namespace heddle::ndarray_detail
