// The gradient through a fused relu, converted to oneDNN's blocked layout in one pass over memory.
#pragma once

#include <cstdint>

namespace heddle::cpu_kernels {

inline constexpr std::int64_t kChannelBlock = 16;

// Converts row-major planes (images * channels, pixels) into oneDNN's layout nChw16c or nCdhw16c, in which 16 channels lie side by
// side for each pixel; writes 0 where y <= 0. channels: a multiple of 16; pixels: at least 16.
void mask_into_blocks(const float* grad, const float* y, std::int64_t images, std::int64_t channels,
                      std::int64_t pixels, float* blocked);

}  // namespace heddle::cpu_kernels
