// Rows of stored values: checks that all stores share, and ops on rows.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <heddle/kvstore.h>
#include <heddle/row_sparse.h>

namespace heddle {

// These functions throw InvalidArgument, naming `call`. check_row_numbers(): if `rows` is no list of row
// numbers. check_has_rows(): if an array of this shape and dtype has no rows. check_rows_like(): if the
// row-sparse `value` does not fit an array of this shape and dtype.
void check_row_numbers(const char* call, KVStore::Key key, const NDArray& rows);
void check_has_rows(const char* call, KVStore::Key key, const Shape& shape, DType dtype);
void check_rows_like(const char* call, KVStore::Key key, const RowSparse& value, const Shape& shape,
                     DType dtype);
// Checks the arguments of pull_rows. `out` may be null.
void check_pull_rows(KVStore::Key key, const NDArray& rows, const NDArray* out, const Shape& shape,
                     DType dtype, const Engine& engine);

// row_numbers() and present_rows() return the row numbers in an array. They are called in ops that read the
// array. Messages of their errors begin with `who`. row_numbers() throws InvalidIndex for a row outside [0,
// bound). present_rows() throws Error unless rows are strictly rising and in range.
std::vector<std::int64_t> row_numbers(const std::string& who, const NDArray& rows, std::int64_t bound);
std::span<const std::int64_t> present_rows(const std::string& who, const RowSparse& value);

// Copies row numbers to an i64 array on cpu(0), by an op that fails with InvalidIndex for a number outside
// [0, bound).
NDArray rows_within(KVStore::Key key, const NDArray& rows, std::int64_t bound);

RowSparse on_device(const RowSparse& value, Device device);
// Bools of shape (n, 1...) on the device of `rows`: whether a row is present.
NDArray is_row_of(const RowSparse& rows);
// Overwrites rows of `dense`, which is contiguous, by those of `rows`, on the same device. On a GPU all of `dense` is written.
void assign_rows(const NDArray& dense, const RowSparse& rows);
// Sets out[i] to row rows[i] of `found`, which has every row that `rows` names. `out` has passed
// check_pull_rows().
void take_rows(KVStore::Key key, const RowSparse& found, const NDArray& rows, const NDArray& out);

}  // namespace heddle
