#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/kernel_table.h"
#include "cpu/bits.h"
#include "cpu/checked_indices.h"
#include "cpu/loops/chunks.h"
#include "families/indexing/kernels.h"

namespace heddle::cpu_kernels {

namespace {

// x as an array of shape (outer, bound, inner), in which `bound` is the size of the axis.
struct Blocks {
  Blocks(const Shape& shape, int axis) : bound(shape[axis]) {
    for (int d = 0; d < axis; ++d) outer *= shape[d];
    for (int d = axis + 1; d < shape.size(); ++d) inner *= shape[d];
  }
  std::int64_t outer = 1, bound, inner = 1;
};

// gather() for inner == 1, where each entry is one element.
void gather_elements(const Blocks& blocks, const NDArray& x, const CheckedIndices& at, const NDArray& y) {
  const std::int64_t number = at.size();
  visit_bits(x.dtype(), [&]<class Bits> {
    const auto* from = reinterpret_cast<const Bits*>(x.data<const std::byte>());
    auto* to = reinterpret_cast<Bits*>(y.data<std::byte>());
    parallel_chunks(blocks.outer * number, kElementGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t entry = begin; entry < end;) {
        const std::int64_t outer = entry / number, first = entry % number;
        const std::int64_t last = std::min(number, first + end - entry);
        const Bits* line = from + outer * blocks.bound;
        for (std::int64_t i = first; i < last; ++i) to[entry++] = line[at[i]];
      }
    });
  });
}

void gather(const Blocks& blocks, const NDArray& x, const CheckedIndices& at, const NDArray& y) {
  at.check_all();
  if (y.size() == 0) return;
  if (blocks.inner == 1) return gather_elements(blocks, x, at, y);
  const std::int64_t number = at.size();
  const std::size_t bytes = size_of(x.dtype());
  const auto* from = x.data<const std::byte>();
  auto* to = y.data<std::byte>();
  const std::size_t run = static_cast<std::size_t>(blocks.inner) * bytes;
  const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / blocks.inner);
  parallel_chunks(blocks.outer * number, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t entry = begin; entry < end; ++entry) {
      const std::int64_t source = entry / number * blocks.bound + at[entry % number];
      std::memcpy(to + static_cast<std::size_t>(entry) * run, from + static_cast<std::size_t>(source) * run,
                  run);
    }
  });
}

void take_kernel(const KernelContext&, const char* op, const NDArray& x, const NDArray& indices,
                 const NDArray& y, int axis) {
  const Blocks blocks(x.shape(), axis);
  gather(blocks, x, CheckedIndices(op, indices, blocks.bound, true, y), y);
}

void embedding_kernel(const KernelContext&, const char* op, const NDArray& weight, const NDArray& indices,
                      const NDArray& y) {
  const Blocks blocks(weight.shape(), 0);
  gather(blocks, weight, CheckedIndices(op, indices, blocks.bound, false, y), y);
}

// Each chunk owns some columns of x, so that two entries with one index are never added at the same time.
template <class T> void scatter_add(const Blocks& blocks, const T* gradient, const CheckedIndices& at, T* x) {
  constexpr std::int64_t kColumns = 64;
  const std::int64_t tiles = (blocks.inner + kColumns - 1) / kColumns, number = at.size();
  const std::int64_t work = std::max<std::int64_t>(1, number * std::min(blocks.inner, kColumns));
  parallel_chunks(blocks.outer * tiles, std::max<std::int64_t>(1, kElementGrain / work),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t unit = begin; unit < end; ++unit) {
                      const std::int64_t outer = unit / tiles, column = unit % tiles * kColumns;
                      const std::int64_t width = std::min(kColumns, blocks.inner - column);
                      T* into = x + outer * blocks.bound * blocks.inner + column;
                      const T* from = gradient + outer * number * blocks.inner + column;
                      for (std::int64_t i = 0; i < number; ++i) {
                        T* row = into + at[i] * blocks.inner;
                        for (std::int64_t j = 0; j < width; ++j) row[j] += from[i * blocks.inner + j];
                      }
                    }
                  });
}

void take_gradient_kernel(const KernelContext&, const NDArray& gradient, const NDArray& indices,
                          const NDArray& x, int axis) {
  const Blocks blocks(x.shape(), axis);
  const CheckedIndices at("take", indices, blocks.bound, true, x);
  at.check_all();
  if (x.dtype() == DType::f64)
    return scatter_add(blocks, gradient.data<const double>(), at, x.data<double>());
  scatter_add(blocks, gradient.data<const float>(), at, x.data<float>());
}

void one_hot_kernel(const KernelContext&, const NDArray& labels, const NDArray& y) {
  const std::int64_t n = y.shape()[y.ndim() - 1];
  const CheckedIndices at("one_hot", labels, n, false, y);
  at.check_all();
  visit_bits(y.dtype(), [&]<class Bits> {
    auto* to = reinterpret_cast<Bits*>(y.data<std::byte>());
    const Bits one = bits_of<Bits>(1, y.dtype());
    std::fill_n(to, y.size(), Bits{0});
    for (std::int64_t i = 0; i < at.size(); ++i) to[i * n + at[i]] = one;
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(indexing) {
  table.add<TakeKernel>("take", DeviceKind::cpu, take_kernel);
  table.add<TakeGradientKernel>("take_gradient", DeviceKind::cpu, take_gradient_kernel);
  table.add<EmbeddingKernel>("embedding", DeviceKind::cpu, embedding_kernel);
  table.add<OneHotKernel>("one_hot", DeviceKind::cpu, one_hot_kernel);
}

}  // namespace heddle::cpu_kernels
