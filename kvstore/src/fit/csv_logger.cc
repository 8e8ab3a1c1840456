#include <filesystem>
#include <fstream>

#include <heddle/callbacks.h>
#include <heddle/number_text.h>

namespace heddle {

// Keeps the lines of the epochs before a resume: what a former run has written of later ones is trained anew.
void CsvLogger::on_train_begin(FitRun& run) {
  names_ = run.value_names();
  if (run.rank() != 0) return;
  std::string kept;
  if (run.epoch() > 0) {
    std::ifstream old(path_);
    std::string line;
    for (std::int64_t i = 0; i <= run.epoch() && std::getline(old, line); ++i) kept += line + "\n";
  }
  if (kept.empty()) {
    kept = "epoch";
    for (const std::string& name : names_) kept += "," + name;
    kept += "\n";
  }
  std::ofstream file(path_, std::ios::trunc);
  if (!(file << kept << std::flush)) throw Error("CsvLogger: file '" + path_ + "' cannot be written");
}

void CsvLogger::on_epoch_end(FitRun& run, const FitValues& values) {
  if (run.rank() != 0) return;
  std::string line = std::to_string(run.epoch() + 1);
  for (const std::string& name : names_) {
    const auto value = values.find(name);
    line += "," + (value == values.end() ? "" : number_text(value->second));
  }
  std::ofstream file(path_, std::ios::app);
  if (!(file << line << "\n" << std::flush)) throw Error("CsvLogger: file '" + path_ + "' cannot be written");
}

}  // namespace heddle
