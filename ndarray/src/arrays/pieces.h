// Large copies between the CPU and a GPU are made in pieces, by way of two blocks of page-locked memory in turn: the CPU fills or
// empties one while the GPU copies the other.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include <heddle/engine.h>
#include <heddle/ndarray.h>

namespace heddle::ndarray_detail {

inline constexpr std::size_t kPieceBytes = std::size_t{8} << 20;  // copies of more bytes are made in pieces

// A large copy, from the push to its end. The more there are, the shorter are the pieces of later ones, so that all together have
// little page-locked memory: 48 MiB for 3 copies, and 32 more each time there are twice as many.
class LargeCopy {
 public:
  LargeCopy() : before_(count_.fetch_add(1, std::memory_order_relaxed)) {}
  ~LargeCopy() { count_.fetch_sub(1, std::memory_order_relaxed); }
  LargeCopy(const LargeCopy&) = delete;
  LargeCopy& operator=(const LargeCopy&) = delete;
  std::size_t piece_bytes() const;

 private:
  static inline std::atomic<unsigned> count_{0};
  const unsigned before_;  // how many there were
};

// A part of an array that is dense in a row-major copy of the array: how long it is along each axis, and where it begins.
struct Piece {
  Shape sizes, starts;
};
// Cuts a shape that has elements into pieces of at most `most` elements, in row-major order.
std::vector<Piece> pieces_of(const Shape& shape, std::int64_t most);
NDArray part_of(const NDArray& array, const Piece& piece);  // a view, outside of any tape

}  // namespace heddle::ndarray_detail
