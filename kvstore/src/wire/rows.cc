#include "wire/rows.h"

namespace heddle::kv_detail {
namespace {

// Most bytes of a row. No value in memory has longer rows, and with this limit sums of sizes cannot overflow.
constexpr std::uint64_t kLongestRow = std::uint64_t{1} << 48;

std::uint64_t bytes_each(const Request& request) {
  return kRowNumberBytes + (request.kind == Kind::push ? request.row_bytes : 0);
}

}  // namespace

void check_rows(const Request& request) {
  if (request.row_bytes == 0) return;
  const bool has_rows =
      request.kind == Kind::push || request.kind == Kind::pull || request.kind == Kind::set_state;
  if (!has_rows || request.overwrite || request.row_bytes > kLongestRow)
    throw MalformedMessage("rows of " + std::to_string(request.row_bytes) + " bytes where none belong");
  if (request.kind == Kind::set_state || request.bytes % bytes_each(request) == 0) return;
  throw MalformedMessage(std::to_string(request.bytes) + " bytes for rows of " +
                         std::to_string(request.row_bytes) + " bytes");
}

std::uint64_t row_count(const Request& request) { return request.bytes / bytes_each(request); }

std::string row_problem(const Request& request, std::uint64_t value_bytes, DType dtype) {
  const std::string rows = "rows of " + std::to_string(request.row_bytes) + " bytes";
  if (value_bytes % request.row_bytes != 0 || request.row_bytes % size_of(dtype) != 0)
    return rows + " of a value of " + std::to_string(value_bytes) + " bytes of " + name_of(dtype);
  if (!is_floating(dtype)) return rows + " of " + name_of(dtype) + ", and only floating values have rows";
  if (row_count(request) > value_bytes / request.row_bytes)
    return std::to_string(row_count(request)) + " rows of a value of " +
           std::to_string(value_bytes / request.row_bytes);
  return {};
}

void check_row_list(std::span<const std::int64_t> rows, std::uint64_t bound) {
  std::int64_t previous = -1;
  for (const std::int64_t row : rows) {
    if (row <= previous || static_cast<std::uint64_t>(row) >= bound)
      throw MalformedMessage("row " + std::to_string(row) + " behind row " + std::to_string(previous) +
                             " of a value of " + std::to_string(bound) + " rows");
    previous = row;
  }
}

}  // namespace heddle::kv_detail
