// The gradient before a fused relu, brought into oneDNN's blocked layout in one pass over memory.
#pragma once

#include <cstdint>

namespace heddle::cpu_kernels {

inline constexpr std::int64_t kChannelBlock = 16;

// Row-major planes (images * channels, pixels) to blocks of 16 channels that lie side by side for each pixel (nChw16c),
// zero where y <= 0. channels: a multiple of 16; pixels: at least 16.
void mask_into_blocks(const float* grad, const float* y, std::int64_t images, std::int64_t channels,
                      std::int64_t pixels, float* blocked);

}  // namespace heddle::cpu_kernels
