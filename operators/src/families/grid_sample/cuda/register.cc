// Registers sampling at places of a grid for GPUs.
#include <algorithm>
#include <cstddef>

#include <heddle/error.h>

#include "core/kernel_table.h"
#include "cuda/arrays.h"
#include "cuda/radix_sort.h"
#include "cuda/scratch.h"
#include "families/grid_sample/cuda/kernels.h"
#include "families/grid_sample/kernels.h"

namespace heddle::cuda_kernels {
namespace {

GridPlaces places_of(const GridProblem& p, DType dtype) {
  GridPlaces all{};
  all.axes = p.axes;
  all.batch = p.batch, all.channels = p.channels, all.places = p.places;
  all.taps = p.mode == Interpolation::nearest ? 1 : p.mode == Interpolation::linear ? 2 : 4;
  all.edge = static_cast<unsigned char>(p.padding);
  all.align_corners = p.align_corners;
  all.wide = dtype == DType::f64;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    all.in[axis] = p.in[axis];
    all.order[axis] = p.order[axis];
  }
  return all;
}

void sample(const KernelContext& context, const GridProblem& p, const NDArray& x, const NDArray& grid,
            const NDArray& y) {
  if (y.size() == 0) return;
  check_launch(context, launch_sample(context.stream().native(), places_of(p, x.dtype()), read<void>(x),
                                      read<void>(grid), written<void>(y)));
}

void grid_gradient(const KernelContext& context, const GridProblem& p, const NDArray& g, const NDArray& x,
                   const NDArray& grid, const NDArray& grid_grad) {
  if (grid_grad.size() == 0) return;
  check_launch(context,
               launch_grid_gradient(context.stream().native(), places_of(p, g.dtype()), read_address(g),
                                    read_address(x), read<void>(grid), written<void>(grid_grad)));
}

// Some images at a time, whose elements and weights are kept until they are sorted.
void spread(const KernelContext& context, const GridProblem& p, const NDArray& g, const NDArray& grid,
            const NDArray& x_grad) {
  if (x_grad.size() == 0) return;
  constexpr long long kEntries = 1 << 22;
  GridPlaces all = places_of(p, g.dtype());
  const long long each = all.places * all.elements();
  if (each > kLongestSort)
    throw Error(with_call_site("grid_sample: more than 2^32 elements of an image in the gradient"));
  const long long images = std::clamp<long long>(kEntries / std::max(each, 1ll), 1, p.batch);
  all.batch = images;
  const Scratch space(context, "the elements of a grid's places", spread_bytes(all));
  const std::size_t bytes = size_of(g.dtype());
  const auto* const of_g = static_cast<const std::byte*>(read_address(g));
  const auto* const of_grid = static_cast<const std::byte*>(read_address(grid));
  std::byte* const to = address(x_grad, check::AccessKind::write);
  for (long long image = 0; image < p.batch; image += images) {
    all.batch = std::min<long long>(images, p.batch - image);
    const auto behind = [&](long long elements) {
      return static_cast<std::size_t>(image * elements) * bytes;
    };
    check_launch(context, launch_spread(context.stream().native(), all, of_g + behind(p.channels * p.places),
                                        of_grid + behind(p.places * p.axes),
                                        to + behind(p.channels * all.plane()), space.as()));
  }
}

}  // namespace
}  // namespace heddle::cuda_kernels

namespace heddle {

HEDDLE_CUDA_KERNELS(grid_sample) {
  table.add<GridSampleKernel>("grid_sample", DeviceKind::cuda, cuda_kernels::sample);
  table.add<GridSpreadKernel>("grid_sample_spread", DeviceKind::cuda, cuda_kernels::spread);
  table.add<GridGradientKernel>("grid_sample_grid", DeviceKind::cuda, cuda_kernels::grid_gradient);
}

}  // namespace heddle
