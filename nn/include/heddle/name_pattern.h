// Patterns of names, such as "encoder.*.bias".
#pragma once

#include <string_view>

namespace heddle {

// Whether a name fits a pattern, in which * stands for any text and ? for one character.
bool fits_pattern(std::string_view pattern, std::string_view name);

}  // namespace heddle
