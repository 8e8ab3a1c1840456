// The format of rows in pushes and pulls that have row_bytes. Rows are numbered from 0 within the part of the
// value that the server has; a list of rows is i64 and strictly rising. The payload of a push is a list
// followed by the rows' values. The payload of a pull is a list, and its reply has the rows' values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "wire/messages.h"

namespace heddle::kv_detail {

constexpr std::uint64_t kRowNumberBytes = sizeof(std::int64_t);

// Throws MalformedMessage if the request has row_bytes although its kind has none, or if its `bytes` do not
// fit its row_bytes.
void check_rows(const Request& request);
// Number of rows in a push or a pull that check_rows() has accepted.
std::uint64_t row_count(const Request& request);
// Why a value of this size and dtype cannot have the request's rows; empty: it can.
std::string row_problem(const Request& request, std::uint64_t value_bytes, DType dtype);
// Throws MalformedMessage unless `rows` are strictly rising and below `bound`.
void check_row_list(std::span<const std::int64_t> rows, std::uint64_t bound);

}  // namespace heddle::kv_detail
