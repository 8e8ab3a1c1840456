#include "fit/path_pattern.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include <heddle/safetensors.h>

#include "files/atomic_file.h"
#include "fit/path_parts.h"
#include "training/checkpoint_content.h"
#include "training/residual_files.h"

namespace heddle::fit_detail {
namespace {

namespace fs = std::filesystem;

std::string counts_in(std::string_view name) {
  std::string counts;
  for_places(name, [&](std::string_view place) {
    if (place == "step" || (place == "epoch" && counts.empty())) counts = place;
  });
  return counts;
}

std::string file_name(const std::string& path) { return fs::path(path).filename().string(); }

// How many digits a number may have that begins at `begin`, as std::to_string writes it: a zero stands alone.
std::size_t digits_at(std::string_view text, std::size_t begin) {
  if (text.substr(begin).starts_with('0')) return 1;
  const std::size_t end = text.find_first_not_of("0123456789", begin);
  return (end == std::string_view::npos ? text.size() : end) - begin;
}

// Calls use(end) for each place at which a number may end that begins at `begin`.
template <class Use> void for_number_ends(std::string_view text, std::size_t begin, Use use) {
  constexpr std::size_t kMostDigits = 18;  // that an int64_t always has room for
  const std::size_t most = std::min(digits_at(text, begin), kMostDigits);
  for (std::size_t count = 1; count <= most; ++count) use(begin + count);
}

// The same of a value as "%.4f" writes it: "-0.2500", "inf", "-nan".
template <class Use> void for_value_ends(std::string_view text, std::size_t begin, Use use) {
  if (text.substr(begin).starts_with('-')) ++begin;
  for (const char* word : {"inf", "nan"})
    if (text.substr(begin).starts_with(word)) return use(begin + 3);
  const std::size_t point = begin + digits_at(text, begin);
  constexpr std::size_t kDecimals = 4;
  if (point == begin || point >= text.size() || text[point] != '.') return;
  const std::string_view decimals = text.substr(point + 1, kDecimals);
  if (decimals.size() == kDecimals && decimals.find_first_not_of("0123456789") == std::string_view::npos)
    use(point + 1 + kDecimals);
}

using Metadata = std::map<std::string, std::string>;

// The metadata of a checkpoint that fit() has written; nullopt: the file is another one, or gone.
std::optional<Metadata> metadata_of_fit(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  try {
    Metadata all = load_safetensors_metadata(path);
    return is_checkpoint_of_fit(all) ? std::optional(std::move(all)) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// How many steps the checkpoint's trainer has done; -1: not known.
std::int64_t steps_in(const Metadata& metadata) {
  std::int64_t steps = -1;
  if (const auto found = metadata.find(kCheckpointSteps); found != metadata.end())
    std::from_chars(found->second.data(), found->second.data() + found->second.size(), steps);
  return steps;
}

std::string whole(const std::string& path) {
  std::error_code error;
  const fs::path all = fs::absolute(path, error);
  return (error ? fs::path(path) : all).lexically_normal().string();
}

}  // namespace

bool is_of_fit(const std::string& path) { return metadata_of_fit(path).has_value(); }

TextPattern::TextPattern(std::string_view text, std::string_view counts) {
  bool is_counted = false;
  for_parts(
      text,
      [&](std::string_view part) {
        if (!part.empty()) parts_.push_back({Kind::text, std::string(part)});
      },
      [&](std::string_view place) {
        const bool is_first = !counts.empty() && place == counts && !is_counted;
        is_counted = is_counted || is_first;
        parts_.push_back({is_first ? Kind::count : is_count(place) ? Kind::number : Kind::value, ""});
      });
}

std::optional<std::int64_t> TextPattern::number_in(std::string_view text) const {
  if (parts_.size() > text.size()) return std::nullopt;  // each part has a character
  const auto for_ends = [&](const Part& part, std::size_t begin, auto use) {
    if (part.kind == Kind::value) return for_value_ends(text, begin, use);
    if (part.kind != Kind::text) return for_number_ends(text, begin, use);
    if (text.substr(begin).starts_with(part.text)) use(begin + part.text.size());
  };
  // fit[i][at]: whether the parts from i on fit the text from `at` on.
  std::vector<std::vector<bool>> fit(parts_.size() + 1, std::vector<bool>(text.size() + 1, false));
  fit.back().back() = true;
  for (std::size_t i = parts_.size(); i-- > 0;)
    for (std::size_t at = 0; at < text.size(); ++at)
      for_ends(parts_[i], at, [&](std::size_t end) { fit[i][at] = fit[i][at] || fit[i + 1][end]; });
  if (!fit[0][0]) return std::nullopt;
  std::int64_t number = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {  // of several ways each place is as long as it may be
    std::size_t last = at;
    for_ends(parts_[i], at, [&](std::size_t end) {
      if (fit[i + 1][end]) last = end;
    });
    if (parts_[i].kind == Kind::count) std::from_chars(text.data() + at, text.data() + last, number);
    at = last;
  }
  return number;
}

PathPattern::PathPattern(const std::string& path)
    : path_(path),
      folder_(fs::path(path).parent_path().string()),
      counts_(counts_in(file_name(path))),
      name_(file_name(path), counts_) {
  is_known_folder_ = !has_places(folder_);
  for_places(file_name(path), [&](std::string_view) { ++places_; });
  if (folder_.empty()) folder_ = ".";
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
        } else {
          if (value != values.end()) std::snprintf(number, sizeof number, "%.4f", value->second);
          result += value != values.end() ? number : "nan";
        }
      });
  return result;
}

bool PathPattern::fits(const std::string& path) const {
  if (is_known_folder_)
    return whole(fs::path(path).parent_path() / ".") == whole(folder_ + "/.") && name_.fits(file_name(path));
  return TextPattern(whole(path_), counts_).fits(whole(path));
}

template <class CheckpointName, class Use>
void PathPattern::for_numbered(CheckpointName checkpoint_name, Use use) const {
  if (counts_.empty() || !is_known_folder_) return;
  std::error_code error;
  fs::directory_iterator entries(folder_, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const std::optional<std::string> name = checkpoint_name(entries->path().filename().string());
    if (const auto number = name ? name_.number_in(*name) : std::nullopt)
      use(*number, (fs::path(path_).parent_path() / *name).string());
  }
}

NumberedFiles PathPattern::numbered_files() const {
  NumberedFiles found;
  std::map<std::int64_t, std::int64_t> steps;
  for_numbered([](std::string name) { return std::optional(std::move(name)); },
               [&](std::int64_t number, const std::string& path) {
                 const std::optional<Metadata> metadata = metadata_of_fit(path);
                 std::error_code ignored;
                 if (!metadata) {  // also one that another process has removed meanwhile
                   if (fs::is_regular_file(path, ignored)) found.others.push_back(path);
                   return;
                 }
                 // Of several of one number, which differ in a value, the one with most steps; of equal ones the last name.
                 const std::int64_t own = steps_in(*metadata);
                 const auto [file, is_first] = found.files.try_emplace(number, path);
                 if (!is_first && std::pair(own, path) < std::pair(steps[number], file->second)) return;
                 steps[number] = own;
                 file->second = path;
               });
  std::sort(found.others.begin(), found.others.end());
  return found;
}

std::map<std::int64_t, std::string> PathPattern::numbered_residuals(int rank) const {
  std::map<std::int64_t, std::string> files;
  for_numbered([rank](const std::string& name) { return checkpoint_of_residuals(name, rank); },
               [&](std::int64_t number, const std::string& path) { files[number] = path; });
  return files;
}

void PathPattern::remove_abandoned_files() const {
  if (path_.empty() || !is_known_folder_) return;
  remove_abandoned(folder_, [&](const std::string& name) {
    const auto of = checkpoint_of_residuals(name, -1);
    return name_.fits(name) || (of && name_.fits(*of));
  });
}

}  // namespace heddle::fit_detail
