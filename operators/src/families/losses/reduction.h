// The words of the argument "reduction" of losses.
#pragma once

#include <string>

#include <heddle/losses.h>

namespace heddle {

inline constexpr const char* kReductions[] = {"mean", "sum", "none"};

inline Reduction reduction_of(const std::string& text) {
  return text == "sum" ? Reduction::sum : text == "none" ? Reduction::none : Reduction::mean;
}

}  // namespace heddle
