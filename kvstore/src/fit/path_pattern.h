// Paths of checkpoints in which {epoch}, {step} and names of values stand for numbers.
#pragma once

#include <cstdint>
#include <map>
#include <regex>
#include <string>

#include <heddle/callback.h>

namespace heddle::fit_detail {

class PathPattern {
 public:
  explicit PathPattern(const std::string& path);
  int places() const { return places_; }  // how many there are in the file's name
  const std::string& counts() const {
    return counts_;
  }  // "step", else "epoch", if its name has that, else ""

  // The path with numbers in the places; a place that nobody knows is left out.
  std::string filled(const FitRun& run, const FitValues& values) const;
  // The files that there are, by the number that `counts()` names; none without one, or with a place in the folder's name.
  std::map<std::int64_t, std::string> numbered_files() const;
  // Removes temporary files of writers of such files, and of residuals beside them, that were killed; not with a place in the
  // folder's name.
  void remove_abandoned_files() const;

 private:
  std::string path_, folder_, counts_{};
  int places_ = 0;
  bool is_known_folder_ = true;
  std::regex name_;      // of the file; the first group is the number
  std::regex residual_;  // of residuals beside it
};

}  // namespace heddle::fit_detail
