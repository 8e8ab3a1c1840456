// What a path of checkpoints consists of: text, and places such as {epoch}.
#pragma once

#include <string_view>

namespace heddle::fit_detail {

// Calls text(part) and place(name) for the parts of a path, in order. A brace without its end is text.
template <class Text, class Place> void for_parts(std::string_view path, Text text, Place place) {
  while (!path.empty()) {
    const std::size_t open = path.find('{'), close = path.find('}', open);
    if (open == std::string_view::npos || close == std::string_view::npos) return text(path);
    text(path.substr(0, open));
    place(path.substr(open + 1, close - open - 1));
    path.remove_prefix(close + 1);
  }
}

template <class Place> void for_places(std::string_view path, Place place) {
  for_parts(
      path, [](std::string_view) {}, place);
}

inline bool has_places(std::string_view path) {
  bool has_one = false;
  for_places(path, [&](std::string_view) { has_one = true; });
  return has_one;
}

// Whether the place is a whole number of the run, and not a value of an epoch.
inline bool is_count(std::string_view place) { return place == "epoch" || place == "step"; }

}  // namespace heddle::fit_detail
