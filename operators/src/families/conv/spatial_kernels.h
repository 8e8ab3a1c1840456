// Sizes along the spatial axes of images: one to three axes in one form.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include <heddle/ndarray.h>

namespace heddle {

// Numbers along depth, height and width. Images with fewer axes have one slice, or one slice of one row, so that one
// implementation computes all.
inline constexpr int kSpatial = 3;
using Spatial = std::array<std::int64_t, kSpatial>;

inline std::int64_t volume(const Spatial& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

// Numbers along the last `axes` axes, one or as many as those, and `missing` for the others. Throws InvalidArgument, which names
// `op` and `argument`, for another number of numbers.
inline Spatial spatial(const std::string& op, const char* argument, const Dims& given, int axes,
                       std::int64_t missing) {
  if (given.size() != 1 && given.size() != axes)
    throw InvalidArgument(op + ": " + argument + " is " + given.to_string() + "; want " +
                          (axes == 1 ? "1 number" : "1 or " + std::to_string(axes) + " numbers"));
  Spatial sizes;
  sizes.fill(missing);
  for (int axis = 0; axis < axes; ++axis)
    sizes[static_cast<std::size_t>(kSpatial - axes + axis)] = given[given.size() == 1 ? 0 : axis];
  return sizes;
}

// The sizes of the axes of x (N, C, ...) behind the first two.
inline Spatial spatial(const Shape& x) {
  Spatial sizes{1, 1, 1};
  for (int axis = 2; axis < x.size(); ++axis)
    sizes[static_cast<std::size_t>(kSpatial - x.size() + axis)] = x[axis];
  return sizes;
}

// (first, second, ...), with the last `axes` of `sizes`.
inline Shape with_spatial(std::int64_t first, std::int64_t second, const Spatial& sizes, int axes) {
  Shape shape{first, second};
  for (int axis = kSpatial - axes; axis < kSpatial; ++axis)
    shape.push_back(sizes[static_cast<std::size_t>(axis)]);
  return shape;
}

}  // namespace heddle
