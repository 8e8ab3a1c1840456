// max_unpool: elements back at the places where max_pool has found them.
#include <optional>
#include <string>

#include <heddle/creation.h>
#include <heddle/elementwise.h>
#include <heddle/engine.h>
#include <heddle/pooling.h>
#include <heddle/scatter.h>
#include <heddle/shape_ops.h>

#include "core/operator.h"
#include "core/operator_table.h"
#include "families/conv/spatial_kernels.h"

namespace heddle {
namespace {

constexpr const char* kUnpools[] = {"max_unpool1d", "max_unpool2d", "max_unpool3d"};

void check_unpool(const std::string& op, int axes, const NDArray& x, const NDArray& indices) {
  operators_detail::check_arrays(op.c_str(), {&x, &indices});
  operators_detail::check_floating(op.c_str(), x);
  if (x.ndim() != axes + 2)
    throw InvalidArgument(op + ": x is " + x.shape().to_string() + "; want N, C and " + std::to_string(axes) +
                          (axes == 1 ? " axis" : " axes"));
  if (indices.shape() != x.shape())
    throw InvalidArgument(op + ": indices are " + indices.shape().to_string() + "; want the shape of x, " +
                          x.shape().to_string());
}

// Sizes that a pooling with these windows may have had, less than a stride around the usual ones.
Spatial unpooled_sizes(const std::string& op, int axes, const NDArray& x, const PoolOptions& options,
                       const Dims& size) {
  const Spatial in = spatial(x.shape()), kernel = spatial(op, "kernel", options.kernel, axes, 1),
                stride = options.stride.empty() ? kernel : spatial(op, "stride", options.stride, axes, 1),
                padding = spatial(op, "padding", options.padding, axes, 0);
  if (!size.empty() && size.size() != axes)
    throw InvalidArgument(op + ": size is " + size.to_string() + "; want " + std::to_string(axes) +
                          (axes == 1 ? " number" : " numbers"));
  Spatial sizes{1, 1, 1};
  for (std::size_t axis = kSpatial - static_cast<std::size_t>(axes); axis < kSpatial; ++axis) {
    if (kernel[axis] < 1 || stride[axis] < 1 || padding[axis] < 0 || padding[axis] > kernel[axis] / 2)
      throw InvalidArgument(op + ": kernel " + std::to_string(kernel[axis]) + ", stride " +
                            std::to_string(stride[axis]) + ", padding " + std::to_string(padding[axis]) +
                            "; want at least 1, at least 1, and 0 to half the kernel");
    std::int64_t usual;
    if (__builtin_mul_overflow(in[axis] - 1, stride[axis], &usual) ||
        __builtin_add_overflow(usual, kernel[axis] - 2 * padding[axis], &usual))
      throw InvalidArgument(op + ": kernel and stride make sizes beyond 64 bits");
    sizes[axis] = usual;
    if (size.empty()) continue;
    const std::int64_t given = size[static_cast<int>(axis) - (kSpatial - axes)];
    if (given < 0 || given <= usual - stride[axis] || given >= usual + stride[axis])
      throw InvalidArgument(op + ": size is " + size.to_string() + "; want less than a stride, " +
                            std::to_string(stride[axis]) + ", around " + std::to_string(usual));
    sizes[axis] = given;
  }
  for (const std::int64_t one : sizes)
    if (one < 1)
      throw InvalidArgument(op + ": x is " + x.shape().to_string() +
                            ", of which the windows leave no element");
  return sizes;
}

NDArray max_unpool(int axes, const NDArray& x, const NDArray& indices, const PoolOptions& options,
                   const Dims& size) {
  const char* const op = kUnpools[axes - 1];
  check_unpool(op, axes, x, indices);
  const Spatial sizes = unpooled_sizes(op, axes, x, options, size);
  const EngineScope scope(x.engine());
  const std::int64_t batch = x.shape()[0], channels = x.shape()[1];
  const Shape flat{batch, channels, volume(spatial(x.shape()))};
  const NDArray empty = zeros({batch, channels, volume(sizes)}, x.dtype(), x.device());
  // scatter counts negative indices from the end; here they are out of range as those beyond it.
  const NDArray y = ndarray_detail::in_name_of(op, [&] {
    NDArray places = reshape(indices.detach(), flat);
    if (!is_floating(places.dtype()) && places.dtype() != DType::boolean) {
      places = cast(places, DType::i64);
      places = where(places < 0, volume(sizes), places);
    }
    return scatter(empty, places, reshape(x, flat), 2);
  });
  return reshape(y, with_spatial(batch, channels, sizes, axes));
}

}  // namespace

#define HEDDLE_UNPOOLING(axes)                                                                      \
  NDArray max_unpool##axes##d(const NDArray& x, const NDArray& indices, const PoolOptions& options, \
                              const Dims& size, Where where) {                                      \
    const CallSite site(where);                                                                     \
    return max_unpool(axes, x, indices, options, size);                                             \
  }
HEDDLE_UNPOOLING(1)
HEDDLE_UNPOOLING(2)
HEDDLE_UNPOOLING(3)
#undef HEDDLE_UNPOOLING

namespace operators_detail {
namespace {

template <int axes> void add_unpool(OperatorTable& table) {
  table.add(
      kUnpools[axes - 1],
      +[](const NDArray& x, const NDArray& indices, Sizes<axes> kernel,
          const std::optional<Sizes<axes>>& stride, Sizes<axes> padding,
          const std::optional<Sizes<axes>>& size, Where where) {
        const CallSite site(where);
        return max_unpool(
            axes, x, indices,
            {.kernel = Dims(kernel), .stride = stride ? Dims(*stride) : Dims(), .padding = Dims(padding)},
            size ? Dims(*size) : Dims());
      },
      {"Zeros with the elements of x at the `indices` of max_pool_with_indices. `output_size`: spatial "
       "sizes; "
       "None: (L - 1) stride - 2 padding + kernel_size.",
       {{"x", DTypes::floating},
        {"indices", DTypes::integers},
        {"kernel_size", 2},
        {"stride", kNone},
        {"padding", 0},
        {"output_size", kNone}},
       "that of x",
       kDifferentiable});
}

}  // namespace
}  // namespace operators_detail

HEDDLE_OPERATORS(unpooling) {
  table.family("Neural networks");
  operators_detail::add_unpool<1>(table);
  operators_detail::add_unpool<2>(table);
  operators_detail::add_unpool<3>(table);
}

}  // namespace heddle
