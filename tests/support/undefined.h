// What all functions say of an undefined array, and a check of calls that are given one.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ndarray.h>

#include "message_of.h"

namespace heddle::test {

// Follows the function's name.
inline const std::string kSaysUndefined =
    ": an array is undefined: made without a shape, moved from, or a gradient before backward()";

// Functions by their names, each called with an undefined array.
using Calls = std::vector<std::pair<std::string, std::function<void()>>>;

inline void check_refused(const Calls& calls) {
  for (const auto& [name, call] : calls) CHECK(message_of<InvalidArgument>(call) == name + kSaysUndefined);
}

}  // namespace heddle::test
