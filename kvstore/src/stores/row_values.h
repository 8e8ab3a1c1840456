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
// Also for rows and `out` that the call has no use for, unless `out` is null.
void check_pull_rows(KVStore::Key key, const NDArray& rows, const NDArray* out, const Shape& shape,
                     DType dtype, const Engine& engine);
void check_on_cpu(const char* call, const NDArray& array);

// In an op that reads them. They throw for rows that are none of `bound`, in the name of `who`: InvalidIndex, and Error for those
// that are present, which rise.
std::vector<std::int64_t> row_numbers(const std::string& who, const NDArray& rows, std::int64_t bound);
std::span<const std::int64_t> present_rows(const std::string& who, const RowSparse& value);

// A copy of these rows as i64 on cpu(0), made by an op that fails with InvalidIndex for one that is none of `bound`.
NDArray rows_within(KVStore::Key key, const NDArray& rows, std::int64_t bound);

RowSparse on_device(const RowSparse& value, Device device);
// Rows of `dense`, contiguous and on a cpu(i), become those of `rows`.
void assign_rows(const NDArray& dense, const RowSparse& rows);
// out[i] becomes row rows[i], which `found` has. check_pull_rows has let `out` pass.
void take_rows(KVStore::Key key, const RowSparse& found, const NDArray& rows, const NDArray& out);

}  // namespace heddle
