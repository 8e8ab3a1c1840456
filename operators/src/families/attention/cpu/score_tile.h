// Scores of a block of queries and a block of keys: the part of the matrix of all scores that is in memory at one time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "cpu/floating.h"
#include "cpu/gemm.h"
#include "cpu/gemm_half.h"
#include "families/attention/kernels.h"

namespace heddle::cpu_kernels {

// A tile of scores, and the operands of its products, fit into a core's cache.
inline constexpr std::int64_t kQueryBlock = 64, kKeyBlock = 128;

inline std::int64_t blocks_of(std::int64_t size, std::int64_t block) { return (size + block - 1) / block; }

// An array (batch, heads, rows, columns) with contiguous rows.
template <class T> struct HeadRows {
  explicit HeadRows(const NDArray& array)
      : data(array.data<const T>()),
        batch_step(array.strides()[0]),
        head_step(array.strides()[1]),
        // The stride of a single row is any number, but libraries refuse one that is less than the row.
        row_step(array.shape()[2] > 1 ? array.strides()[2] : std::max<std::int64_t>(1, array.shape()[3])) {}

  GemmOperand<T> from(std::int64_t batch, std::int64_t head, std::int64_t row,
                      bool transposed = false) const {
    return {data + batch * batch_step + head * head_step + row * row_step, row_step, transposed};
  }

  const T* data;
  std::int64_t batch_step, head_step, row_step;
};

// A block of queries of one head, and a block of keys.
struct ScoreTile {
  std::int64_t batch, head, query, queries, key, keys;
};

// S: the type of queries, keys and an added mask; T: that of scores.
template <class S> class Scores {
 public:
  using T = ComputeType<S>;
  Scores(const AttentionProblem& problem, const AttentionInputs& in)
      : problem_(problem), query_(in.query), key_(in.key) {
    if (!in.mask.defined()) return;
    const bool boolean = in.mask.dtype() == DType::boolean;
    visible_ = boolean ? in.mask.data<const bool>() : nullptr;
    added_ = boolean ? nullptr : in.mask.data<const S>();
    for (int axis = 0; axis < 4; ++axis)
      mask_steps_[axis] = in.mask.shape()[axis] == 1 ? 0 : in.mask.strides()[axis];
  }

  // Writes the scores, scaled and masked, with kKeyBlock elements a row; -infinity for a key that is hidden. False, and
  // nothing is written, if the query block sees none of the keys.
  bool compute(const ScoreTile& tile, T* scores) const {
    if (problem_.visible(tile.query + tile.queries - 1) <= tile.key || is_hidden(tile)) return false;
    const std::int64_t kv_head = tile.head / problem_.group();
    gemm(tile.queries, tile.keys, problem_.features, query_.from(tile.batch, tile.head, tile.query),
         key_.from(tile.batch, kv_head, tile.key, true), scores, kKeyBlock, false);
    const T scale = static_cast<T>(problem_.scale);
    for (std::int64_t i = 0; i < tile.queries; ++i) {
      const std::int64_t seen =
          std::clamp<std::int64_t>(problem_.visible(tile.query + i) - tile.key, 0, tile.keys);
      T* const row = scores + i * kKeyBlock;
      mask_row(row, seen, scale, mask_offset(tile, i));
      std::fill(row + seen, row + tile.keys, kHidden);
    }
    return true;
  }

 private:
  static constexpr T kHidden = -std::numeric_limits<T>::infinity();

  std::int64_t mask_offset(const ScoreTile& tile, std::int64_t row) const {
    return tile.batch * mask_steps_[0] + tile.head * mask_steps_[1] + (tile.query + row) * mask_steps_[2] +
           tile.key * mask_steps_[3];
  }

  // Whether the mask hides all keys of the tile. It is soon known that it does not.
  bool is_hidden(const ScoreTile& tile) const {
    if (!visible_ && !added_) return false;
    const std::int64_t rows = mask_steps_[2] == 0 ? 1 : tile.queries, step = mask_steps_[3];
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t at = mask_offset(tile, i);
      for (std::int64_t j = 0; j < (step == 0 ? 1 : tile.keys); ++j)
        if (visible_ ? visible_[at + j * step] : static_cast<T>(added_[at + j * step]) != kHidden)
          return false;
    }
    return true;
  }

  void mask_row(T* row, std::int64_t count, T scale, std::int64_t at) const {
    const std::int64_t step = mask_steps_[3];
    if (visible_ && step == 1) {
      const bool* const mask = visible_ + at;
      for (std::int64_t j = 0; j < count; ++j) row[j] = mask[j] ? row[j] * scale : kHidden;
    } else if (visible_) {
      for (std::int64_t j = 0; j < count; ++j) row[j] = visible_[at + j * step] ? row[j] * scale : kHidden;
    } else if (added_ && step == 1) {
      const S* const mask = added_ + at;
      for (std::int64_t j = 0; j < count; ++j) row[j] = row[j] * scale + static_cast<T>(mask[j]);
    } else if (added_) {
      for (std::int64_t j = 0; j < count; ++j)
        row[j] = row[j] * scale + static_cast<T>(added_[at + j * step]);
    } else {
      for (std::int64_t j = 0; j < count; ++j) row[j] *= scale;
    }
  }

  const AttentionProblem& problem_;
  HeadRows<S> query_, key_;
  const bool* visible_ = nullptr;
  const S* added_ = nullptr;
  std::int64_t mask_steps_[4] = {};
};

// A tile of numbers that a product reads, as S: the tile itself, or its copy in `room`.
template <class S>
GemmOperand<S> tile_operand(const ScoreTile& tile, const ComputeType<S>* numbers, bool transposed, S* room) {
  if constexpr (is_half_type<S>) {
    for (std::int64_t i = 0; i < tile.queries; ++i)
      narrow(numbers + i * kKeyBlock, room + i * kKeyBlock, static_cast<std::size_t>(tile.keys));
    return {room, kKeyBlock, transposed};
  } else {
    return {numbers, kKeyBlock, transposed};
  }
}
// Bytes of that room, beside tiles of ComputeType<S>.
template <class S> constexpr std::size_t kTileRoom = is_half_type<S> ? kQueryBlock* kKeyBlock * sizeof(S) : 0;

}  // namespace heddle::cpu_kernels
