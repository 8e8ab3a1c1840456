// Argument types that carry the place of the call, for operators that have no room for a parameter `where`: x[i], -x,
// out << x.
#pragma once

#include <cstdint>
#include <optional>

#include <heddle/call_site.h>

namespace heddle {

class NDArray;

// begin, end, step of one axis with Python's meaning; steps may be negative.
struct Slice {
  std::optional<std::int64_t> begin{}, end{};
  std::int64_t step = 1;
};

// The i of x[i].
struct Index {
  Index(std::int64_t index, Where at = Where::current()) : value(index), where(at) {}
  std::int64_t value;
  Where where;
};

// The x of -x and of out << x: lives no longer than the array.
struct ArrayArgument {
  ArrayArgument(const NDArray& x, Where at = Where::current()) : array(x), where(at) {}
  const NDArray& array;
  Where where;
};

}  // namespace heddle
