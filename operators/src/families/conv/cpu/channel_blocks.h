// Images in oneDNN's blocked layouts nChw16c and nCdhw16c, in which 16 channels lie side by side for each pixel.
#pragma once

#include <cstdint>

namespace heddle::cpu_kernels {

inline constexpr std::int64_t kChannelBlock = 16;

// Convert between row-major planes (images * channels, pixels) and blocks in one pass over memory. T: float or BFloat16. channels: a
// multiple of 16; pixels: at least 16.
//
// With y, the result of a relu in row-major memory, into_blocks() writes 0 where y <= 0: the gradient through the relu. y may be null.
template <class T>
void into_blocks(const T* plain, const T* y, std::int64_t images, std::int64_t channels, std::int64_t pixels,
                 T* blocked);
// With `relu`, 0 in place of what is below 0; NaN stays.
template <class T>
void from_blocks(const T* blocked, std::int64_t images, std::int64_t channels, std::int64_t pixels, bool relu,
                 T* plain);

}  // namespace heddle::cpu_kernels
