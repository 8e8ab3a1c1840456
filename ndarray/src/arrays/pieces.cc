#include "arrays/pieces.h"

#include <algorithm>
#include <bit>

namespace heddle::ndarray_detail {

std::size_t LargeCopy::piece_bytes() const {
  constexpr int kMostHalvings = 5;  // shorter pieces would take longer to push than to copy
  return kPieceBytes >>
         std::min(kMostHalvings, std::max(0, static_cast<int>(std::bit_width(before_ + 1)) - 2));
}

std::vector<Piece> pieces_of(const Shape& shape, std::int64_t most) {
  // The first axis of which one index has no more elements than a piece may have.
  int axis = 0;
  std::int64_t inner = element_count(shape) / shape[0];
  while (inner > most) inner /= shape[++axis];
  const std::int64_t length = most / inner;
  Piece piece{shape, Dims::filled(shape.size(), 0)};
  for (int i = 0; i < axis; ++i) piece.sizes[i] = 1;
  std::vector<Piece> pieces;
  for (;;) {
    for (std::int64_t begin = 0; begin < shape[axis]; begin += length) {
      piece.starts[axis] = begin;
      piece.sizes[axis] = std::min(length, shape[axis] - begin);
      pieces.push_back(piece);
    }
    int outer = axis - 1;
    while (outer >= 0 && ++piece.starts[outer] == shape[outer]) piece.starts[outer--] = 0;
    if (outer < 0) return pieces;
  }
}

NDArray part_of(const NDArray& array, const Piece& piece) {
  std::int64_t offset = array.offset();
  for (int axis = 0; axis < array.ndim(); ++axis) offset += piece.starts[axis] * array.strides()[axis];
  return array.detach().view(piece.sizes, array.strides(), offset);
}

}  // namespace heddle::ndarray_detail
