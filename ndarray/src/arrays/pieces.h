// Large copies between the CPU and a GPU are made in pieces, by way of two blocks of page-locked memory in turn: the CPU fills or
// empties one while the GPU copies the other.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <heddle/engine.h>
#include <heddle/ndarray.h>

namespace heddle::ndarray_detail {

inline constexpr std::size_t kPieceBytes = std::size_t{8} << 20;

// A part of an array that is dense in a row-major copy of the array: how long it is along each axis, and where it begins.
struct Piece {
  Shape sizes, starts;
};
// Cuts a shape that has elements into pieces of at most `most` elements, in row-major order.
std::vector<Piece> pieces_of(const Shape& shape, std::int64_t most);
NDArray part_of(const NDArray& array, const Piece& piece);  // a view, outside of any tape

}  // namespace heddle::ndarray_detail
