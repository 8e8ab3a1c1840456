// Updates of some rows of a key's value, at a cost in proportion to these rows.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <heddle/ndarray.h>
#include <heddle/optimizer.h>

#include "wire/state_blob.h"
#include "wire/update_rule.h"

namespace heddle::kv_detail {

constexpr std::uint64_t kRowSlotBytes = 56;  // of state, for a row's number and its place in the table

// Rows of a value: their numbers, i64 (k), rising and each once, and what they have, (k, elements of a row).
struct RowValues {
  NDArray rows{}, values{};
  bool defined() const { return rows.defined(); }
  std::int64_t count() const { return rows.shape()[0]; }
  std::int64_t width() const { return values.shape()[1]; }
  std::uint64_t bytes() const;
};

// The rows that a push's payload has. Throws MalformedMessage unless they rise and are below `bound`.
RowValues rows_in(const NDArray& payload, std::uint64_t row_bytes, DType dtype, std::uint64_t bound);
// The sum over all, added in their order: f32 of halves. `bound`: the rows that there can be.
RowValues sum_rows(const std::vector<RowValues>& all, std::int64_t bound);
// matrix (n, width): contiguous. Returns once it is done.
NDArray gather_rows(const NDArray& matrix, const NDArray& rows);
void scatter_rows(const NDArray& matrix, const RowValues& rows);
void add_rows_to(NDArray& dense, const RowValues& rows);  // dense: flat, f32 for rows of halves

// The optimizer of a value of which only rows were updated so far. Keeps state of the rows that have been, each of which is
// updated as a weight of its own.
class RowOptimizer {
 public:
  // Throws InvalidArgument if the optimizer does not update weights of this type.
  RowOptimizer(const UpdateRule& rule, DType dtype, std::int64_t width);
  // weights: those of the gradient's rows, which change in place. Throws InvalidArgument.
  void update(const NDArray& weights, const RowValues& gradient, const UpdateOptions& options);

  // "rows" (i64, rising), what there is of each of these, such as "velocity", "width" and "updates": all one-dimensional.
  StateArrays state() const;
  // `bound`: the rows that there can be. Throws InvalidArgument or MalformedMessage, having changed nothing.
  void set_state(const StateArrays& state, std::int64_t bound);
  std::uint64_t bytes() const;      // of state
  std::uint64_t row_bytes() const;  // of the state of one row
  // Of these rows, which rise: those that there is no state of.
  std::int64_t count_without_state(const NDArray& rows) const;
  std::int64_t width() const { return width_; }

  // An optimizer with this state that updates the whole value.
  std::unique_ptr<Optimizer> whole(const NDArray& matrix) const;
  // Takes over the state, one-dimensional, of a whole value of `rows` rows, if most of them have none. False: they do.
  bool take_over(const StateArrays& state, std::int64_t rows);

 private:
  // One array of the state: so many bytes for each row that there is state of.
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
  std::vector<std::int64_t> rows_;  // by slot, in the order in which they were touched first
  std::unordered_map<std::int64_t, std::size_t> slots_;
};

}  // namespace heddle::kv_detail
