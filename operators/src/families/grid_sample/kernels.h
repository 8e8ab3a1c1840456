// The kernel types of sampling at places of a grid.
#pragma once

#include <array>
#include <cstdint>

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>
#include <heddle/resample.h>

namespace heddle {

// A result is a sum of elements of the image with weights, each the product of one weight for each axis. `order`: how often
// the weights are differentiated by the coordinate of an axis. Axes are depth, height, width; a missing depth has one element.
struct GridProblem {
  int axes = 2;
  std::int64_t batch = 0, channels = 0;
  std::array<std::int64_t, 3> in{1, 1, 1};
  std::int64_t places = 0;  // of a batch element: the product of the output's sizes
  Interpolation mode = Interpolation::linear;
  GridPadding padding = GridPadding::zeros;
  bool align_corners = false;
  std::array<std::int8_t, 3> order{};
};

// Arrays are contiguous, f32 or f64. x (batch, channels, in), grid (batch, places, axes), y (batch, channels, places).
using GridSampleKernel = void(const KernelContext& context, const GridProblem& problem, const NDArray& x,
                              const NDArray& grid, const NDArray& y);
// The transpose: adds each element of g (batch, channels, places) to those of x_grad (batch, channels, in) that it is made of.
using GridSpreadKernel = void(const KernelContext& context, const GridProblem& problem, const NDArray& g,
                              const NDArray& grid, const NDArray& x_grad);
// The gradient of the grid: sums over channels of g times the derivatives of y.
using GridGradientKernel = void(const KernelContext& context, const GridProblem& problem, const NDArray& g,
                                const NDArray& x, const NDArray& grid, const NDArray& grid_grad);

}  // namespace heddle
