// Arguments of calls by name that are an int or a list of ints of any length.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <heddle/elementwise.h>

namespace heddle::operators_detail {

std::optional<std::int64_t> count_in(const Operand& value);  // nothing if it is no int

// The values of an array of integers with one axis at most, for which it waits. Throws InvalidArgument for others.
std::vector<std::int64_t> integers_in(const char* op, const char* argument, const Operand& value);

}  // namespace heddle::operators_detail
