// Paths of checkpoints in which {epoch}, {step} and names of values stand for numbers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <heddle/callback.h>

namespace heddle::fit_detail {

// What a text consists of: texts, whole numbers, of which one counts the files, and values.
class TextPattern {
 public:
  enum class Kind { text, count, number, value };
  // `counts`: the place whose number is that of the file.
  TextPattern(std::string_view text, std::string_view counts);
  bool fits(std::string_view text) const { return number_in(text).has_value(); }
  // The number of the place that counts, 0 without one; nullopt: the text does not fit. Work and memory grow with the product
  // of the lengths at most.
  std::optional<std::int64_t> number_in(std::string_view text) const;

 private:
  struct Part {
    Kind kind;
    std::string text;
  };
  std::vector<Part> parts_{};
};

// Whether the file is a checkpoint that fit() has written.
bool is_of_fit(const std::string& path);

struct NumberedFiles {
  std::map<std::int64_t, std::string> files{};  // checkpoints of fit()
  std::vector<std::string> others{};            // other files of such names
};

class PathPattern {
 public:
  explicit PathPattern(const std::string& path);
  int places() const { return places_; }  // how many there are in the file's name
  bool has_known_folder() const { return is_known_folder_; }
  const std::string& counts() const {
    return counts_;
  }  // "step", else "epoch", if its name has that, else ""

  // The path with numbers in the places; "nan" for a value that nobody knows, as after an interrupt.
  std::string filled(const FitRun& run, const FitValues& values) const;
  // Whether filled() may have given this path, for this or another run.
  bool fits(const std::string& path) const;
  // The files that there are, by the number that `counts()` names; none without one, or with a place in the folder's name.
  NumberedFiles numbered_files() const;
  // Checkpoints, which may be gone, beside which there are residuals of a rank; by the same number.
  std::map<std::int64_t, std::string> numbered_residuals(int rank) const;
  // Removes temporary files of writers of such files, and of residuals beside them, that were killed; not with a place in the
  // folder's name.
  void remove_abandoned_files() const;

 private:
  // Calls use(number, path) for all in the folder whose name, of which checkpoint_name(name) is looked at, has a number.
  template <class CheckpointName, class Use> void for_numbered(CheckpointName checkpoint_name, Use use) const;
  std::string path_, folder_, counts_{};
  int places_ = 0;
  bool is_known_folder_ = true;
  TextPattern name_;
};

}  // namespace heddle::fit_detail
