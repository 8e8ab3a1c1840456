// Images, signals and volumes of other sizes: resampling, and blocks of pixels that move between space and channels. Results
// follow PyTorch's functions of the same names. All differentiable, to any order.
#pragma once

#include <cstdint>
#include <vector>

#include <heddle/ndarray.h>

namespace heddle {

// How interpolate() computes an element from those around its place. nearest rounds its place down, nearest_exact to the nearest
// element; linear is bi- or trilinear by the number of axes; cubic is the convolution of Keys (IEEE TASSP 1981) with a = -0.75;
// area is the mean of the elements that an output element covers.
enum class Interpolation : std::uint8_t { nearest, nearest_exact, linear, cubic, area };

struct InterpolateOptions {
  Dims size = {};  // the sizes of the spatial axes, or one for all; empty: by `scale`
  std::vector<double> scale =
      {};  // instead of sizes: output sizes are floor(size * scale); one for all axes, or one for each
  Interpolation mode = Interpolation::nearest;
  bool align_corners =
      false;  // true: the centres of the outermost elements keep their place; for linear and cubic
};

// x (N, C, ...) with one to three spatial axes -> (N, C, sizes...). cubic is for two axes. Floating dtypes, halves computed as
// f32; the nearest modes take every dtype.
NDArray interpolate(const NDArray& x, const InterpolateOptions& options, Where where = Where::current());

// x (..., C * factor^2, H, W) -> (..., C, H * factor, W * factor): the channels of one group fill a block of factor x factor pixels
// (Shi et al., CVPR'16). Any dtype.
NDArray pixel_shuffle(const NDArray& x, std::int64_t factor, Where where = Where::current());
// The inverse: x (..., C, H * factor, W * factor) -> (..., C * factor^2, H, W).
NDArray pixel_unshuffle(const NDArray& x, std::int64_t factor, Where where = Where::current());

}  // namespace heddle
