// Updates of some rows of a key's value. An update takes time in proportion to the number of these rows.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <heddle/ndarray.h>
#include <heddle/optimizer.h>

#include "stores/update_rule.h"
#include "wire/state_blob.h"

namespace heddle::kv_detail {

// Bytes that a row with optimizer state takes in addition to the state: for its number and its entry in the
// table.
constexpr std::uint64_t kRowSlotBytes = 56;

// Some rows of a value. `rows`: their numbers, i64 (k), strictly rising. `values`: (k, elements of a row).
struct RowValues {
  NDArray rows{}, values{};
  bool defined() const { return rows.defined(); }
  std::int64_t count() const { return rows.shape()[0]; }
  std::int64_t width() const { return values.shape()[1]; }
  std::uint64_t bytes() const;
};

inline NDArray as_matrix(const NDArray& value, std::int64_t rows) {
  return value.view_as({rows, value.size() / rows});
}
// The rows in a push's payload. Throws MalformedMessage unless they are strictly rising and below `bound`.
RowValues rows_in(const NDArray& payload, std::uint64_t row_bytes, DType dtype, std::uint64_t bound);
// The sum of all row-sparse values, added in their order; f32 for f16 and bf16. `bound`: number of rows of
// the key's value.
RowValues sum_rows(const std::vector<RowValues>& all, std::int64_t bound);
// Copy rows from and to `matrix`, which is contiguous, (n, width). gather_rows() and scatter_rows() return
// once the rows are copied.
NDArray gather_rows(const NDArray& matrix, const NDArray& rows);
void scatter_rows(const NDArray& matrix, const RowValues& rows);
// `dense`: a value of one dimension, f32 if the rows are f16 or bf16.
void add_rows_to(NDArray& dense, const RowValues& rows);

// The optimizer of a value of which only rows were updated so far. It keeps state of updated rows only, each
// of which is updated as a weight of its own.
class RowOptimizer {
 public:
  // Throws InvalidArgument if the optimizer does not update weights of this type.
  RowOptimizer(const UpdateRule& rule, DType dtype, std::int64_t width);
  // `weights`: the values of the gradient's rows, changed in place. Throws InvalidArgument.
  void update(const NDArray& weights, const RowValues& gradient, const UpdateOptions& options);

  // One-dimensional arrays: "rows" (i64, the rows with state, rising), "width", "updates", and arrays such as
  // "velocity" with the elements of these rows.
  StateArrays state() const;
  // `bound`: number of rows of the value. If it throws InvalidArgument or MalformedMessage, nothing has
  // changed.
  void set_state(const StateArrays& state, std::int64_t bound);
  std::uint64_t bytes() const;      // size of all state
  std::uint64_t row_bytes() const;  // size of the state of one row
  // How many of these rows, which are in rising order, have no state.
  std::int64_t count_without_state(const NDArray& rows) const;
  std::int64_t width() const { return width_; }

  // An optimizer with this state that updates the whole value.
  std::unique_ptr<Optimizer> whole(const NDArray& matrix) const;
  // Takes over the state of an optimizer of a whole value with `rows` rows, in one-dimensional arrays. Does
  // so only if at least half of the rows have no state. False: more rows have state, or the state does not
  // fit.
  bool take_over(const StateArrays& state, std::int64_t rows);

 private:
  // One array of the state: row_bytes bytes for each row that has state.
  struct Column {
    DType dtype = DType::f32;
    std::size_t row_bytes = 0;
    std::vector<std::byte> data{};
  };
  std::unique_ptr<Optimizer> made() const { return create_optimizer(rule_.name, rule_.params); }
  std::vector<std::size_t> slots_for(const NDArray& rows);
  NDArray gathered(const Column& column, const std::vector<std::size_t>& slots) const;
  std::vector<std::size_t> rising() const;
  Shape shape_of(const Column& column, std::int64_t rows) const;

  const UpdateRule rule_;
  const DType dtype_;
  const std::int64_t width_;
  std::int64_t updates_ = 0;
  std::map<std::string, Column> columns_;
  std::vector<std::int64_t> rows_;  // number of the row in each slot; slots are taken at a row's first update
  std::unordered_map<std::int64_t, std::size_t> slots_;
};

}  // namespace heddle::kv_detail
