// The optimizer of a key's value, and its state. An optimizer of the whole value has arrays of one dimension
// or, once rows were pushed while the whole value had state, of two.
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
  KeyOptimizer() = default;  // has no state
  // An optimizer with this state, whose arrays have one dimension. With `row_bytes` > 0, rows of that size
  // without state take no memory. `value`: flat. Throws InvalidArgument or MalformedMessage.
  KeyOptimizer(const UpdateRule& rule, const StateArrays& state, const NDArray& value,
               std::uint64_t row_bytes);

  // Both change `value`, which is flat, in place, and return once they are done. They throw InvalidArgument.
  void update(const UpdateRule& rule, const NDArray& value, const NDArray& sum, const UpdateOptions& options);
  void update_rows(const UpdateRule& rule, const NDArray& value, const RowValues& sum,
                   const UpdateOptions& options);

  StateArrays state() const;         // by name: "velocity" and so on
  StateArrays shared_state() const;  // state() that stays as it is while its storage is held
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
  std::int64_t matrix_rows_ = 0;          // rows of the matrix that whole_ updates; 0: it has one dimension
  std::unique_ptr<RowOptimizer> rows_{};  // instead of whole_, if only rows were updated
  mutable bool shared_ = false;           // a StateSaver may hold the storage of whole_'s state
  std::uint64_t bytes_ = 0;
};

}  // namespace heddle::kv_detail
