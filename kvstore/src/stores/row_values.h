// Rows of what a store has: what all stores check, and ops on rows.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <heddle/kvstore.h>
#include <heddle/row_sparse.h>

namespace heddle {

// They throw InvalidArgument in the name of `call`: for what is no list of rows; for what is stored, if it has no rows; for
// an array unlike what is stored.
void check_row_numbers(const char* call, KVStore::Key key, const NDArray& rows);
void check_has_rows(const char* call, KVStore::Key key, const Shape& shape, DType dtype);
void check_rows_like(const char* call, KVStore::Key key, const RowSparse& value, const Shape& shape,
                     DType dtype);
void check_on_cpu(const char* call, const NDArray& array);

// In an op that reads them. Throw Error for rows that are none of `bound`, in the name of `who`; those that are present rise.
std::vector<std::int64_t> row_numbers(const std::string& who, const NDArray& rows, std::int64_t bound);
std::span<const std::int64_t> present_rows(const std::string& who, const RowSparse& value);

RowSparse on_device(const RowSparse& value, Device device);
// Rows of `dense`, contiguous and on a cpu(i), become those of `rows`.
void assign_rows(const NDArray& dense, const RowSparse& rows);
// out[i] becomes row rows[i], which `found` has. Throws InvalidArgument for an `out` of another shape or dtype.
void take_rows(KVStore::Key key, const RowSparse& found, const NDArray& rows, const NDArray& out);

}  // namespace heddle
