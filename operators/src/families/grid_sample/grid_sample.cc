#include <cstdint>
#include <string>
#include <vector>

#include <heddle/autograd.h>
#include <heddle/creation.h>
#include <heddle/elementwise.h>
#include <heddle/matmul.h>
#include <heddle/reduce.h>
#include <heddle/resample.h>
#include <heddle/shape_ops.h>

#include "autograd/record.h"
#include "core/operator.h"
#include "core/operator_table.h"
#include "families/grid_sample/kernels.h"

namespace heddle {

using namespace operators_detail;

namespace {

constexpr const char* kModes[] = {"linear", "nearest", "cubic"};
constexpr Interpolation kModeOf[] = {Interpolation::linear, Interpolation::nearest, Interpolation::cubic};
constexpr const char* kPaddings[] = {"zeros", "border", "reflection"};

void check_grid_sample(const NDArray& x, const NDArray& grid, const GridSampleOptions& options) {
  check_arrays("grid_sample", {&x, &grid});
  check_floating("grid_sample", x);
  const std::string shapes =
      "grid_sample: x is " + x.shape().to_string() + ", grid is " + grid.shape().to_string();
  if (x.dtype() != grid.dtype())
    throw InvalidArgument(std::string("grid_sample: x is ") + name_of(x.dtype()) + ", grid is " +
                          name_of(grid.dtype()) + "; want one dtype");
  const int axes = x.ndim() - 2;
  if (axes != 2 && axes != 3) throw InvalidArgument(shapes + "; want x (N, C, H, W) or (N, C, D, H, W)");
  if (grid.ndim() != axes + 2 || grid.shape()[axes + 1] != axes || grid.shape()[0] != x.shape()[0])
    throw InvalidArgument(shapes + "; want grid " + (axes == 2 ? "(N, H, W, 2)" : "(N, D, H, W, 3)") +
                          " with the N of x");
  for (int i = 0; i < axes; ++i)
    if (x.shape()[i + 2] == 0) throw InvalidArgument(shapes + "; want spatial axes of x with elements");
  if (options.mode != Interpolation::linear && options.mode != Interpolation::nearest &&
      options.mode != Interpolation::cubic)
    throw InvalidArgument("grid_sample: mode is another one; want linear, nearest or cubic");
  if (options.mode == Interpolation::cubic && axes != 2)
    throw InvalidArgument(shapes + ", mode is cubic; want two spatial axes");
}

// What sampling works on: x as it is, the grid (N, places, axes), results (N, C, places). Arrays are f32 or f64.
Shape sampled_shape(const GridProblem& p) { return {p.batch, p.channels, p.places}; }

// Puts the two arrays that a gradient needs onto the tape of the gradient.
struct Kept {
  NDArray array;
  bool needed;
  explicit Kept(const NDArray& of) : array(save_for_backward(of)), needed(requires_grad(of)) {}
};

NDArray spread(const GridProblem& problem, const Shape& shape, const NDArray& g, const NDArray& grid);
NDArray grid_gradient(const GridProblem& problem, const NDArray& g, const NDArray& x, const NDArray& grid);

NDArray sampled(const GridProblem& problem, const NDArray& x, const NDArray& grid) {
  const NDArray image = x.detach().contiguous(), places = grid.detach().contiguous();
  NDArray y = make_result(x, sampled_shape(problem), x.dtype());
  auto* kernel = kernel_for<GridSampleKernel>("grid_sample", x);
  array_push("grid_sample", {image, places}, {y}, [=, out = y.detach()](const KernelContext& context) {
    kernel(context, problem, image, places, out);
  });
  if (!recording({&x, &grid})) return y;
  const Kept of_x(x), of_grid(grid);
  record_op("grid_sample", y, {x, grid}, {of_x.array, of_grid.array}, [=](const NDArray& g) {
    return std::vector{of_x.needed ? spread(problem, of_x.array.shape(), g, of_grid.array) : NDArray(),
                       of_grid.needed ? grid_gradient(problem, g, of_x.array, of_grid.array) : NDArray()};
  });
  return y;
}

// The transpose of sampled() for images of a shape.
NDArray spread(const GridProblem& problem, const Shape& shape, const NDArray& g, const NDArray& grid) {
  const NDArray source = g.detach().contiguous(), places = grid.detach().contiguous();
  NDArray x_grad = make_result(g, shape, g.dtype());
  auto* kernel = kernel_for<GridSpreadKernel>("grid_sample_spread", g);
  array_push("grid_sample_backward", {source, places}, {x_grad},
             [=, out = x_grad.detach()](const KernelContext& context) {
               kernel(context, problem, source, places, out);
             });
  if (!recording({&g, &grid})) return x_grad;
  const Kept of_g(g), of_grid(grid);
  record_op("grid_sample_backward", x_grad, {g, grid}, {of_g.array, of_grid.array}, [=](const NDArray& h) {
    return std::vector{of_g.needed ? sampled(problem, h, of_grid.array) : NDArray(),
                       of_grid.needed ? grid_gradient(problem, of_g.array, h, of_grid.array) : NDArray()};
  });
  return x_grad;
}

NDArray grid_gradient_by_operators(const GridProblem& problem, const NDArray& g, const NDArray& x,
                                   const NDArray& grid) {
  std::vector<NDArray> along;
  for (int axis = 0; axis < problem.axes; ++axis) {
    GridProblem derived = problem;
    ++derived.order[static_cast<std::size_t>(2 - axis)];
    along.push_back(sum(g * sampled(derived, x, grid), 1));
  }
  return stack(along, -1);
}

NDArray grid_gradient(const GridProblem& problem, const NDArray& g, const NDArray& x, const NDArray& grid) {
  if (recording({&g, &x, &grid})) return grid_gradient_by_operators(problem, g, x, grid);
  const NDArray of_g = g.detach().contiguous(), image = x.detach().contiguous(),
                places = grid.detach().contiguous();
  const NDArray grid_grad = make_result(grid, grid.shape(), grid.dtype());
  auto* kernel = kernel_for<GridGradientKernel>("grid_sample_grid", g);
  array_push("grid_sample_backward", {of_g, image, places}, {grid_grad},
             [=](const KernelContext& context) { kernel(context, problem, of_g, image, places, grid_grad); });
  return grid_grad;
}

GridProblem grid_problem(const NDArray& x, const NDArray& grid, const GridSampleOptions& options) {
  GridProblem problem{.axes = x.ndim() - 2,
                      .batch = x.shape()[0],
                      .channels = x.shape()[1],
                      .mode = options.mode,
                      .padding = options.padding,
                      .align_corners = options.align_corners};
  problem.places = 1;
  for (int i = 0; i < problem.axes; ++i) {
    problem.in[static_cast<std::size_t>(3 - problem.axes + i)] = x.shape()[i + 2];
    problem.places *= grid.shape()[i + 1];
  }
  return problem;
}

// The coordinates of `size` elements along an axis.
NDArray axis_coordinates(const NDArray& like, std::int64_t size, bool align_corners) {
  const NDArray numbers = arange(0, static_cast<double>(size), 1, like.dtype(), like.device());
  if (align_corners) return size > 1 ? numbers * (2.0 / static_cast<double>(size - 1)) - 1.0 : numbers;
  return (numbers * 2.0 + 1.0) / static_cast<double>(size) - 1.0;
}

}  // namespace

NDArray grid_sample(const NDArray& x, const NDArray& grid, const GridSampleOptions& options, Where where) {
  const CallSite site(where);
  check_grid_sample(x, grid, options);
  const GridProblem problem = grid_problem(x, grid, options);
  Shape shape{x.shape()[0], x.shape()[1]};
  for (int i = 0; i < problem.axes; ++i) shape.push_back(grid.shape()[i + 1]);
  const NDArray places = reshape(grid, {problem.batch, problem.places, problem.axes});
  if (!is_half(x.dtype())) return reshape(sampled(problem, x, places), shape);
  return cast(reshape(sampled(problem, wide(x), wide(places)), shape), x.dtype());
}

NDArray affine_grid(const NDArray& theta, const Dims& size, bool align_corners, Where where) {
  const CallSite site(where);
  check_arrays("affine_grid", {&theta});
  check_floating("affine_grid", theta);
  const int axes = size.size() - 2;
  if (axes != 2 && axes != 3)
    throw InvalidArgument("affine_grid: size is " + size.to_string() +
                          "; want (N, C, H, W) or (N, C, D, H, W)");
  for (const std::int64_t one : size)
    if (one < 0) throw InvalidArgument("affine_grid: size is " + size.to_string() + "; want 0 or more");
  if (theta.shape() != Shape{size[0], axes, axes + 1})
    throw InvalidArgument("affine_grid: theta is " + theta.shape().to_string() + ", size is " +
                          size.to_string() + "; want theta " + Shape{size[0], axes, axes + 1}.to_string());
  if (is_half(theta.dtype())) return cast(affine_grid(wide(theta), size, align_corners), theta.dtype());
  const EngineScope scope(theta.engine());
  Shape sizes, result{size[0]};
  for (int i = 0; i < axes; ++i) sizes.push_back(size[i + 2]), result.push_back(size[i + 2]);
  std::vector<NDArray> coordinates;
  for (int i = axes; i-- > 0;) {  // of the last axis first
    Shape along = Dims::filled(axes, 1);
    along[i] = sizes[i];
    coordinates.push_back(
        broadcast_to(reshape(axis_coordinates(theta, sizes[i], align_corners), along), sizes));
  }
  coordinates.push_back(ones(sizes, theta.dtype(), theta.device()));
  const NDArray base = reshape(stack(coordinates, -1), {element_count(sizes), axes + 1});
  result.push_back(axes);
  return reshape(matmul(base, transpose(theta, {0, 2, 1})), result);
}

HEDDLE_OPERATORS(grid_sample) {
  table.family("Neural networks");
  table.add(
      "grid_sample",
      +[](const NDArray& x, const NDArray& grid, const std::string& mode, const std::string& padding_mode,
          bool align_corners, Where where) {
        std::size_t which = 0, padding = 0;
        while (mode != kModes[which]) ++which;
        while (padding_mode != kPaddings[padding]) ++padding;
        return grid_sample(x, grid,
                           {.mode = kModeOf[which],
                            .padding = static_cast<GridPadding>(padding),
                            .align_corners = align_corners},
                           where);
      },
      {"x (N, C, H, W) or (N, C, D, H, W) at the places of grid (N, out..., 2 or 3): coordinates from -1 to "
       "1 along the image, of the last axis first. cubic is for two axes.",
       {{"x", DTypes::floating},
        {"grid", DTypes::floating},
        {"mode", "linear", kModes},
        {"padding_mode", "zeros", kPaddings},
        {"align_corners", false}},
       "that of x",
       kDifferentiable});
  table.add("affine_grid", affine_grid,
            {"The grid by which grid_sample transforms images of `size` (N, C, H, W) by theta (N, 2, 3), or "
             "volumes of (N, C, D, H, W) by theta (N, 3, 4).",
             {{"theta", DTypes::floating}, "size", {"align_corners", false}},
             "that of theta",
             kDifferentiable});
}

}  // namespace heddle
