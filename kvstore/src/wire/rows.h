// Some rows of a value, as pushes and pulls with row_bytes carry them. Rows have numbers from 0 on in the part of the value
// that the server has; a list of rows is i64, rising, each once. The payload of a push is a list and the rows' values
// behind it; that of a pull is a list, and the reply the rows' values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "wire/messages.h"

namespace heddle::kv_detail {

constexpr std::uint64_t kRowNumberBytes = sizeof(std::int64_t);

// Whether a request of this kind may have row_bytes, and its `bytes` fit them. Throws MalformedMessage.
void check_rows(const Request& request);
// How many rows a push or a pull names. check_rows() has been called.
std::uint64_t row_count(const Request& request);
// Why a value of these bytes and elements has no such rows; empty: it has them.
std::string row_problem(const Request& request, std::uint64_t value_bytes, DType dtype);
// Throws MalformedMessage unless `rows` rise and are below `bound`.
void check_row_list(std::span<const std::int64_t> rows, std::uint64_t bound);

}  // namespace heddle::kv_detail
