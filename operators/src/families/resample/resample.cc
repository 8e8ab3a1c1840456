#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include <heddle/number_text.h>
#include <heddle/resample.h>
#include <heddle/shape_ops.h>

#include "autograd/record.h"
#include "core/operator.h"
#include "core/operator_table.h"
#include "families/resample/kernels.h"

namespace heddle {

using namespace operators_detail;

namespace {

constexpr const char* kInterpolations[] = {"nearest", "nearest-exact", "linear", "cubic", "area"};

bool takes_nearest(Interpolation mode) {
  return mode == Interpolation::nearest || mode == Interpolation::nearest_exact;
}

// Checks x, the mode, and that sizes or scales are given for each spatial axis or once for all.
void check_interpolate(const NDArray& x, const InterpolateOptions& options) {
  check_arrays("interpolate", {&x});
  const int axes = x.ndim() - 2;
  if (axes < 1 || axes > 3)
    throw InvalidArgument("interpolate: the array is " + x.shape().to_string() +
                          "; want (N, C, ...) with one to three spatial axes");
  if (!takes_nearest(options.mode)) check_floating("interpolate", x);
  if (options.mode == Interpolation::cubic && axes != 2)
    throw InvalidArgument("interpolate: mode is cubic, the array is " + x.shape().to_string() +
                          "; want two spatial axes");
  if (options.align_corners && options.mode != Interpolation::linear && options.mode != Interpolation::cubic)
    throw InvalidArgument(std::string("interpolate: align_corners with mode ") +
                          kInterpolations[static_cast<std::uint8_t>(options.mode)] +
                          "; want linear or cubic");
  if (options.size.empty() == options.scale.empty())
    throw InvalidArgument("interpolate: want either size or scale");
  const int given = options.size.empty() ? static_cast<int>(options.scale.size()) : options.size.size();
  if (given != 1 && given != axes)
    throw InvalidArgument(std::string("interpolate: ") + (options.size.empty() ? "scale" : "size") + " has " +
                          std::to_string(given) + " numbers for " + std::to_string(axes) + " spatial axes");
}

// Spatial axis i of x, `i` from 0.
ResampleAxis resample_axis(const NDArray& x, const InterpolateOptions& options, int i) {
  ResampleAxis axis{x.shape()[i + 2], 0, 0};
  if (axis.in == 0)
    throw InvalidArgument("interpolate: the array is " + x.shape().to_string() +
                          "; want spatial axes with elements");
  if (!options.size.empty()) {
    axis.out = options.size[options.size.size() == 1 ? 0 : i];
    if (axis.out < 1)
      throw InvalidArgument("interpolate: size is " + options.size.to_string() + "; want 1 or more");
    return axis;
  }
  const double scale = options.scale[options.scale.size() == 1 ? 0 : static_cast<std::size_t>(i)];
  const double out = std::floor(static_cast<double>(axis.in) * scale);
  if (!(scale > 0 && out >= 1 && out < 0x1p62))
    throw InvalidArgument("interpolate: scale is " + number_text(scale) + " for " + std::to_string(axis.in) +
                          " elements; want a number that leaves 1 or more");
  axis.out = static_cast<std::int64_t>(out);
  axis.step = 1 / scale;
  return axis;
}

Shape resampled_shape(const Shape& shape, const ResampleProblem& problem) {
  const int axes = shape.size() - 2;
  Shape result = shape;
  for (int i = 0; i < axes; ++i) {
    const ResampleAxis& axis = problem.axes[static_cast<std::size_t>(3 - axes + i)];
    result[i + 2] = problem.transposed ? axis.in : axis.out;
  }
  return result;
}

// x is not a half, unless elements are only copied.
NDArray resampled(const ResampleProblem& problem, const NDArray& x) {
  const char* const op = problem.transposed ? "interpolate_backward" : "interpolate";
  const NDArray source = x.detach().contiguous();
  NDArray y = make_result(x, resampled_shape(x.shape(), problem), x.dtype());
  auto* kernel = kernel_for<ResampleKernel>("resample", x);
  array_push(op, {source}, {y}, recordable([=, out = y.detach()](const KernelContext& context) {
               kernel(context, problem, source, out);
             }));
  if (recording({&x})) {
    // The map is linear: the gradient of the gradient is the map itself.
    ResampleProblem back = problem;
    back.transposed = !problem.transposed;
    record_op(op, y, {x}, {}, [back](const NDArray& g) {
      if (is_half(g.dtype())) return std::vector{cast(resampled(back, wide(g)), g.dtype())};
      return std::vector{resampled(back, g)};
    });
  }
  return y;
}

struct PixelProblem {
  std::int64_t batch = 1, channels, height, width;
  Shape before;  // the axes in front of the channels
};

PixelProblem pixels_of(const char* op, const NDArray& x, std::int64_t factor) {
  check_arrays(op, {&x});
  if (x.ndim() < 3)
    throw InvalidArgument(std::string(op) + ": the array is " + x.shape().to_string() +
                          "; want (..., C, H, W)");
  if (factor < 1 || factor > 0x7fffffff)
    throw InvalidArgument(std::string(op) + ": factor is " + std::to_string(factor) +
                          "; want 1 to 2147483647");
  const int at = x.ndim() - 3;
  PixelProblem pixels{1, x.shape()[at], x.shape()[at + 1], x.shape()[at + 2], {}};
  for (int d = 0; d < at; ++d) {
    pixels.batch *= x.shape()[d];
    pixels.before.push_back(x.shape()[d]);
  }
  return pixels;
}

Shape with_sizes(Shape shape, std::initializer_list<std::int64_t> sizes) {
  for (const std::int64_t size : sizes) shape.push_back(size);
  return shape;
}

}  // namespace

NDArray interpolate(const NDArray& x, const InterpolateOptions& options, Where where) {
  const CallSite site(where);
  check_interpolate(x, options);
  ResampleProblem problem{
      .planes = x.shape()[0] * x.shape()[1], .mode = options.mode, .align_corners = options.align_corners};
  const int axes = x.ndim() - 2;
  for (int i = 0; i < axes; ++i)
    problem.axes[static_cast<std::size_t>(3 - axes + i)] = resample_axis(x, options, i);
  if (is_half(x.dtype()) && !takes_nearest(options.mode)) return cast(resampled(problem, wide(x)), x.dtype());
  return resampled(problem, x);
}

NDArray pixel_shuffle(const NDArray& x, std::int64_t factor, Where where) {
  const CallSite site(where);
  const PixelProblem p = pixels_of("pixel_shuffle", x, factor);
  const std::int64_t channels = p.channels / (factor * factor);
  if (p.channels % (factor * factor) != 0)
    throw InvalidArgument("pixel_shuffle: the array is " + x.shape().to_string() +
                          "; want a number of channels that factor squared, " +
                          std::to_string(factor * factor) + ", divides");
  const NDArray blocks = reshape(x, {p.batch, channels, factor, factor, p.height, p.width});
  return reshape(transpose(blocks, {0, 1, 4, 2, 5, 3}),
                 with_sizes(p.before, {channels, p.height * factor, p.width * factor}));
}

NDArray pixel_unshuffle(const NDArray& x, std::int64_t factor, Where where) {
  const CallSite site(where);
  const PixelProblem p = pixels_of("pixel_unshuffle", x, factor);
  if (p.height % factor != 0 || p.width % factor != 0)
    throw InvalidArgument("pixel_unshuffle: the array is " + x.shape().to_string() +
                          "; want a height and a width that factor, " + std::to_string(factor) + ", divides");
  const std::int64_t height = p.height / factor, width = p.width / factor;
  const NDArray blocks = reshape(x, {p.batch, p.channels, height, factor, width, factor});
  return reshape(transpose(blocks, {0, 1, 3, 5, 2, 4}),
                 with_sizes(p.before, {p.channels * factor * factor, height, width}));
}

HEDDLE_OPERATORS(resample) {
  table.family("Neural networks");
  table.add(
      "interpolate",
      +[](const NDArray& x, const std::optional<Dims>& size, std::optional<double> scale,
          const std::string& mode, bool align_corners, Where where) {
        std::uint8_t which = 0;
        while (mode != kInterpolations[which]) ++which;
        InterpolateOptions options{.mode = static_cast<Interpolation>(which), .align_corners = align_corners};
        if (size) options.size = *size;
        if (scale || !size) options.scale = {scale.value_or(2)};
        return interpolate(x, options, where);
      },
      {"x (N, C, ...) with one to three spatial axes, resampled to these sizes, or to floor(size * "
       "scale), by 2 if both are None. The nearest modes take any dtype, the others floating ones; cubic "
       "is for two axes.",
       {"x",
        {"size", kNone},
        {"scale", kNone},
        {"mode", "nearest", kInterpolations},
        {"align_corners", false}},
       "that of x",
       kDifferentiable});
  table.add("pixel_shuffle", pixel_shuffle,
            {"(..., C * factor^2, H, W) -> (..., C, H * factor, W * factor): channels fill blocks of pixels.",
             {"x", "factor"},
             "that of x",
             kDifferentiable});
  table.add("pixel_unshuffle", pixel_unshuffle,
            {"(..., C, H * factor, W * factor) -> (..., C * factor^2, H, W): the inverse of pixel_shuffle.",
             {"x", "factor"},
             "that of x",
             kDifferentiable});
}

}  // namespace heddle
