#include "wire/consistency.h"

#include <charconv>

#include <heddle/error.h>

namespace heddle::kv_detail {

Consistency parse_consistency(const std::string& text) {
  if (text == "sync") return {Consistency::Mode::sync, 0};
  if (text == "async") return {Consistency::Mode::async, 0};
  if (text.starts_with("ssp:")) {
    Consistency result{Consistency::Mode::ssp, 0};
    const char* const end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data() + 4, end, result.slack);
    if (error == std::errc() && stopped == end) return result;
  }
  throw InvalidArgument("'" + text + "' is no consistency; there are sync, async and ssp:N, such as ssp:3");
}

}  // namespace heddle::kv_detail
