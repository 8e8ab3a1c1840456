// Helpers for arguments of calls by name that are an int or a list of ints of any length.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <heddle/elementwise.h>

namespace heddle::operators_detail {

std::optional<std::int64_t> count_in(const Operand& value);  // the int; nullopt if value is no int

// Waits for an array of integers with at most one axis and returns its values. Throws InvalidArgument for
// other values.
std::vector<std::int64_t> integers_in(const char* op, const char* argument, const Operand& value);

}  // namespace heddle::operators_detail
