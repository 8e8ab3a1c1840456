#include <charconv>
#include <limits>

#include <heddle/number_text.h>

namespace heddle {

std::string number_text(double value) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}

std::string fixed_text(double value, int places) {
  std::string text(static_cast<std::size_t>(std::numeric_limits<double>::max_exponent10 + places + 4), ' ');
  const char* const end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, places).ptr;
  text.resize(static_cast<std::size_t>(end - text.data()));
  return text;
}

}  // namespace heddle
