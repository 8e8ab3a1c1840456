// Images, signals and volumes of other sizes: resampling, blocks of pixels that move between space and channels, and sampling at places
// that arrays name (Jaderberg et al., NIPS'15). Results follow PyTorch's functions of the same names. All differentiable, to any order.
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

// What is outside of the image: zeros, the nearest element of its border, or its reflection.
enum class GridPadding : std::uint8_t { zeros, border, reflection };

struct GridSampleOptions {
  Interpolation mode = Interpolation::linear;  // linear, nearest or cubic
  GridPadding padding = GridPadding::zeros;
  bool align_corners =
      false;  // true: -1 and 1 are the centres of the outermost elements; false: the image's edges
};

// x (N, C, H, W) or (N, C, D, H, W) -> (N, C, out...), with an element for each place in grid (N, out..., axes): its coordinates, of the last
// axis of x first, from -1 to 1 along the image. A coordinate that is NaN counts as -1. cubic is for two axes. Both arrays have one
// floating dtype; halves are computed as f32. Gradients for both; nearest has none for the grid, which is zeros.
NDArray grid_sample(const NDArray& x, const NDArray& grid, const GridSampleOptions& options = {},
                    Where where = Where::current());

// The grid by which grid_sample() transforms images of `size` (N, C, H, W) by theta (N, 2, 3), or volumes of (N, C, D, H, W) by
// theta (N, 3, 4): (N, H, W, 2) or (N, D, H, W, 3), the matrix of each batch element applied to the coordinates of the result.
NDArray affine_grid(const NDArray& theta, const Dims& size, bool align_corners = false,
                    Where where = Where::current());

}  // namespace heddle
