// The error that all functions throw for an undefined array, and a check that calls throw it.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ndarray.h>

#include "message_of.h"

namespace heddle::test {

// The message of that error, which follows the function's name.
inline const std::string kSaysUndefined =
    ": an array is undefined: made without a shape, moved from, or a gradient before backward()";

// Pairs of a function's name and a call of it with an undefined array.
using Calls = std::vector<std::pair<std::string, std::function<void()>>>;

inline void check_refused(const Calls& calls) {
  for (const auto& [name, call] : calls) CHECK(message_of<InvalidArgument>(call) == name + kSaysUndefined);
}

}  // namespace heddle::test
