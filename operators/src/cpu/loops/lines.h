// The lines of a contiguous array along one axis, for scans.
#pragma once

#include <algorithm>
#include <cstdint>

#include <heddle/shape.h>

#include "cpu/loops/chunks.h"

namespace heddle::cpu_kernels {

inline constexpr std::int64_t kTile = 256;  // adjacent lines that are scanned together

// Lines of `length` elements that lie `inner` elements apart, in blocks of `inner` adjacent lines.
struct Lines {
  Lines(const Shape& shape, int axis) : length(shape[axis]) {
    for (int d = 0; d < shape.size(); ++d) (d < axis ? outer : d > axis ? inner : ignored) *= shape[d];
  }
  // Calls body(offset of the first line, number of adjacent lines).
  void run(FunctionRef<void(std::int64_t offset, std::int64_t lines)> body) const {
    const std::int64_t across = (inner + kTile - 1) / kTile;
    const std::int64_t grain =
        std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, length * std::min(inner, kTile)));
    parallel_chunks(outer * across, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t tile = begin; tile < end; ++tile) {
        const std::int64_t column = tile % across * kTile;
        body(tile / across * length * inner + column, std::min(kTile, inner - column));
      }
    });
  }

  std::int64_t length, outer = 1, inner = 1, ignored = 1;
};

}  // namespace heddle::cpu_kernels
