// The optimizer of a key's value, and its state. An optimizer of the whole value has state arrays of one
// dimension. Once rows were pushed while the whole value had state, it has state arrays of two dimensions.
#pragma once

#include <cstdint>
#include <memory>

#include <heddle/ndarray.h>
#include <heddle/optimizer.h>

#include "server/key/row_updates.h"
#include "server/state/state_size.h"
#include "stores/update_rule.h"
#include "wire/state_blob.h"

namespace heddle::kv_detail {

class KeyOptimizer {
 public:
  KeyOptimizer() = default;  // makes an optimizer without state
  // Makes an optimizer with this state, whose arrays have one dimension. `value`: the key's value, of one
  // dimension. With `row_bytes` > 0, the value has rows of that size, and rows without state take no memory.
  // Throws InvalidArgument or MalformedMessage.
  KeyOptimizer(const UpdateRule& rule, const StateArrays& state, const NDArray& value,
               std::uint64_t row_bytes);

  // update() and update_rows() change `value`, which has one dimension, in place, and return once that is
  // done. They throw InvalidArgument.
  void update(const UpdateRule& rule, const NDArray& value, const NDArray& sum, const UpdateOptions& options);
  void update_rows(const UpdateRule& rule, const NDArray& value, const RowValues& sum,
                   const UpdateOptions& options);

  StateArrays state() const;         // state arrays by name, such as "velocity"; an update may change them
  StateArrays shared_state() const;  // like state(), but an update does not change arrays that are still held
  std::uint64_t bytes() const { return bytes_; }
  // Bytes of all state once a push of a whole value of this size has been applied.
  std::uint64_t bytes_for_whole(const StateSize& state, std::int64_t size) const;
  // Bytes of state that these rows of a value will add.
  std::uint64_t bytes_for_rows(const UpdateRule& rule, const NDArray& rows, std::int64_t width,
                               std::int64_t size, DType dtype) const;

 private:
  bool take_row_state(const UpdateRule& rule, const StateArrays& state, const NDArray& value,
                      std::uint64_t row_bytes);
  void make_whole(const UpdateRule& rule, const NDArray& value);
  void make_matrix(const UpdateRule& rule, const StateArrays& state, const NDArray& value, std::int64_t rows);
  NDArray shaped(const NDArray& flat) const;
  void own_state();
  void count();

  std::unique_ptr<Optimizer> whole_{};
  std::int64_t matrix_rows_ = 0;          // number of rows of the matrix that whole_ updates; 0: no matrix
  std::unique_ptr<RowOptimizer> rows_{};  // instead of whole_, if only rows were updated
  mutable bool shared_ = false;           // whether a StateSaver may hold the storage of whole_'s state
  std::uint64_t bytes_ = 0;
};

}  // namespace heddle::kv_detail
