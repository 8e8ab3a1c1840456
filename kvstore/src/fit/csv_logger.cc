#include <algorithm>
#include <cmath>
#include <fstream>

#include <heddle/fit_reports.h>
#include <heddle/number_text.h>

#include "files/atomic_file.h"
#include "fit/writable.h"

namespace heddle {

using namespace fit_detail;

namespace {

std::string header_of(const std::vector<std::string>& names) {
  std::string line = "epoch";
  for (const std::string& name : names) line += "," + name;
  return line;
}

std::string line_of(std::int64_t epoch, const std::vector<std::string>& names, const FitValues& values) {
  std::string line = std::to_string(epoch + 1);
  for (const std::string& name : names) {
    const auto value = values.find(name);
    line += "," + (value == values.end() ? "" : number_text(value->second));
  }
  return line;
}

// The lines of the epochs of a history; a value that an epoch has not is NaN there, and empty here.
std::string lines_of(const History& history, const std::vector<std::string>& names) {
  std::string lines;
  for (std::size_t i = 0; i < history.epochs.size(); ++i) {
    FitValues values;
    for (const auto& [name, series] : history.values)
      if (!std::isnan(series.at(i))) values[name] = series[i];
    lines += line_of(history.epochs[i], names, values) + "\n";
  }
  return lines;
}

}  // namespace

// Keeps the lines of the epochs before a resume: what a former run has written of later ones is trained anew. A file with
// other columns is written anew, from the history.
void CsvLogger::on_train_begin(FitRun& run) {
  names_ = run.value_names();
  if (run.rank() != 0) return;
  check_writable("CsvLogger", path_);
  std::ifstream old(path_);
  std::string line, text;
  const bool goes_on = run.epoch() > 0 && std::getline(old, line);
  if (goes_on && line == header_of(names_)) {
    text = line + "\n";
    for (std::int64_t i = 0; i < run.epoch() && std::getline(old, line); ++i) text += line + "\n";
  } else {
    if (goes_on)
      for (const auto& [name, series] : run.history().values)
        if (std::find(names_.begin(), names_.end(), name) == names_.end()) names_.push_back(name);
    text = header_of(names_) + "\n" + (goes_on ? lines_of(run.history(), names_) : "");
  }
  AtomicFile file(path_);
  file.write(text.data(), text.size());
  file.commit();
}

void CsvLogger::on_epoch_end(FitRun& run, const FitValues& values) {
  if (run.rank() != 0) return;
  const std::string line = line_of(run.epoch(), names_, values);
  std::ofstream file(path_, std::ios::app);
  if (!(file << line << "\n" << std::flush)) throw Error("CsvLogger: file '" + path_ + "' cannot be written");
}

}  // namespace heddle
