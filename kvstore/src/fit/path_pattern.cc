#include "fit/path_pattern.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "files/atomic_file.h"

namespace heddle::fit_detail {
namespace {

namespace fs = std::filesystem;

// Calls text(part) and place(name) for what a path consists of, in order. A brace without its end is text.
template <class Text, class Place> void for_parts(std::string_view path, Text text, Place place) {
  while (!path.empty()) {
    const std::size_t open = path.find('{'), close = path.find('}', open);
    if (open == std::string_view::npos || close == std::string_view::npos) return text(path);
    text(path.substr(0, open));
    place(path.substr(open + 1, close - open - 1));
    path.remove_prefix(close + 1);
  }
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (std::string_view("^$\\.*+?()[]{}|/").find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

}  // namespace

PathPattern::PathPattern(const std::string& path)
    : path_(path), folder_(fs::path(path).parent_path().string()) {
  if (folder_.empty()) folder_ = ".";
  is_known_folder_ = folder_.find('{') == std::string::npos;
  const std::string name = fs::path(path).filename().string();
  for_parts(
      name, [](std::string_view) {},
      [&](std::string_view place) {
        ++places_;
        if (place == "step" || (place == "epoch" && counts_.empty())) counts_ = place;
      });
  std::string pattern;
  bool is_counted = false;
  for_parts(
      name, [&](std::string_view text) { pattern += escaped(text); },
      [&](std::string_view place) {
        const bool is_number = place == counts_ && !is_counted;
        if (is_number) is_counted = true;
        pattern += is_number                             ? "([0-9]{1,18})"
                   : place == "epoch" || place == "step" ? "[0-9]{1,18}"
                                                         : "-?(?:[0-9]+\\.[0-9]+|inf|nan)";
      });
  name_ = std::regex(pattern);
  residual_ = std::regex(pattern + "\\.residuals-[0-9]+-[0-9]+-of-[0-9]+");
}

std::string PathPattern::filled(const FitRun& run, const FitValues& values) const {
  std::string result;
  for_parts(
      path_, [&](std::string_view text) { result += text; },
      [&](std::string_view place) {
        const auto value = values.find(std::string(place));
        char number[64] = "";
        if (place == "epoch") {
          result += std::to_string(run.epoch() + 1);
        } else if (place == "step") {
          result += std::to_string(run.step());
        } else if (value != values.end()) {
          std::snprintf(number, sizeof number, "%.4f", value->second);
          result += number;
        }
      });
  return result;
}

std::map<std::int64_t, std::string> PathPattern::numbered_files() const {
  std::map<std::int64_t, std::string> files;
  if (counts_.empty() || !is_known_folder_) return files;
  std::error_code ignored;
  for (const auto& one : fs::directory_iterator(folder_, ignored)) {
    const std::string name = one.path().filename().string();
    std::smatch found;
    if (!std::regex_match(name, found, name_)) continue;
    const std::string digits = found[1];
    std::int64_t number = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), number);
    std::string& file = files[number];  // of several of one number the last name
    file = std::max(file, (fs::path(path_).parent_path() / name).string());
  }
  return files;
}

void PathPattern::remove_abandoned_files() const {
  if (path_.empty() || !is_known_folder_) return;
  remove_abandoned(folder_, [&](const std::string& name) {
    return std::regex_match(name, name_) || std::regex_match(name, residual_);
  });
}

}  // namespace heddle::fit_detail
