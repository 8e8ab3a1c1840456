#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <system_error>
#include <utility>

#include <heddle/model_checkpoint.h>

#include "fit/monitor.h"
#include "fit/path_parts.h"
#include "fit/path_pattern.h"
#include "fit/writable.h"
#include "training/residual_files.h"

namespace heddle {

using namespace fit_detail;

namespace {

// What a run that went further before it was killed has left, as older files: a pattern with {epoch} or {step} alone tells.
void add_later_files(std::vector<std::string>& files, const PathPattern& pattern, const FitRun& run) {
  if (pattern.places() != 1 || !pattern.has_known_folder()) return;
  const std::int64_t done = pattern.counts() == "epoch" ? run.epoch() : run.step();
  std::map<std::int64_t, std::string> later = pattern.numbered_residuals(run.rank());
  if (run.rank() == 0)
    for (const auto& [number, file] : pattern.numbered_files().files) later[number] = file;
  std::vector<std::string> all;
  for (const auto& [number, file] : later) {
    std::error_code ignored;
    if (number <= done || std::filesystem::equivalent(file, run.resumed_from(), ignored)) continue;
    std::erase(files, file);
    all.push_back(file);
  }
  files.insert(files.begin(), all.begin(), all.end());
}

// On other ranks than the one that writes, the paths in this rank's folder beside which its residuals are; none of a run that was
// saved elsewhere.
std::vector<std::string> own_paths(const std::vector<std::string>& files, const std::string& path,
                                   const PathPattern& pattern, const FitRun& run) {
  if (run.rank() == 0 || !pattern.has_known_folder() || !pattern.fits(run.resumed_from())) return files;
  std::vector<std::string> own;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  for (const std::string& file : files)
    own.push_back(pattern.fits(file) ? file : (folder / std::filesystem::path(file).filename()).string());
  return own;
}

}  // namespace

ModelCheckpoint::ModelCheckpoint(std::string path, ModelCheckpointOptions options)
    : path_(std::move(path)), options_(std::move(options)), is_one_(!has_places(path_)) {
  if (path_.empty()) throw InvalidArgument("ModelCheckpoint: the path is empty");
  if (options_.every_epochs < 0 || options_.every_steps < 0 || options_.keep < 0)
    throw InvalidArgument("ModelCheckpoint: every_epochs is " + std::to_string(options_.every_epochs) +
                          ", every_steps " + std::to_string(options_.every_steps) + ", keep " +
                          std::to_string(options_.keep) + "; want 0 or more");
  if (!options_.monitor.empty() && options_.every_steps > 0)
    throw InvalidArgument("ModelCheckpoint: a monitored value is one of an epoch; want every_steps 0");
}

void ModelCheckpoint::on_train_begin(FitRun& run) {
  if (!options_.monitor.empty()) check_monitor("ModelCheckpoint", run, options_.monitor);
  const std::string value = check_places("ModelCheckpoint", run, path_);
  if (!value.empty() && options_.every_steps > 0)
    throw InvalidArgument("ModelCheckpoint: the path has {" + value +
                          "}, a value of an epoch, and files are saved by steps");
  interrupted_ = false;
  saved_step_ = -1;
  if (run.rank() == 0) check_writable("ModelCheckpoint", path_);
  const PathPattern pattern(path_);
  pattern.remove_abandoned_files();  // on each rank, whose residuals are on its host
  if (run.epoch() > 0 || run.batch() > 0) {
    if (!run.has_state(*this)) files_.clear();
    files_ = own_paths(files_, path_, pattern, run);
    // The run that is resumed may have saved elsewhere: those files stay.
    std::erase_if(files_, [&](const std::string& file) { return !pattern.fits(file); });
    if (options_.keep > 0) add_later_files(files_, pattern, run);
    return;
  }
  files_.clear();
}

void ModelCheckpoint::on_batch_end(FitRun& run) {
  if (options_.every_steps == 0 || run.step() % options_.every_steps != 0) return;
  if (is_one_ && run.ranks() == 1 && run.saving()) return;
  save(run, {});
}

void ModelCheckpoint::on_epoch_end(FitRun& run, const FitValues& values) {
  if (!options_.monitor.empty()) {
    const double value = values.at(options_.monitor);
    if (!is_better(value, best_, wants_more(options_.monitor, options_.mode), 0)) return;
    best_ = value;
  } else if (options_.every_epochs == 0 || (run.epoch() + 1) % options_.every_epochs != 0) {
    return;
  }
  save(run, values);
}

void ModelCheckpoint::on_interrupt(FitRun& run) {
  interrupted_ = true;
  if (options_.on_interrupt && options_.monitor.empty()) save(run, {});
}

void ModelCheckpoint::save(FitRun& run, const FitValues& values) {
  const std::string path = PathPattern(path_).filled(run, values);
  if (options_.keep > 0) {
    std::erase(files_, path);  // a path may come again, and is then the newest
    files_.push_back(path);
    remove_old(run, options_.keep + 1, false);
  }
  saved_step_ = run.step();
  run.save(path);
}

// The newer files are complete when an old one is removed; the newest one is not written yet. Each rank removes its own
// residuals beside it. Other ranks than the one that writes know of a file that it is complete when the next one is begun, or
// at the end: until then all have the name of a removed file, also in checkpoints.
void ModelCheckpoint::remove_old(FitRun& run, std::int64_t most, bool is_end) {
  if (std::ssize(files_) <= most || !run.finish_saves()) return;
  const std::int64_t known = is_end || run.ranks() == 1 ? most : most + 1;
  const std::int64_t old = std::ssize(files_) - (run.rank() == 0 ? most : known);
  for (std::int64_t i = 0; i < old; ++i) {
    const std::string& file = files_[static_cast<std::size_t>(i)];
    std::error_code ignored;
    if (run.rank() == 0 && is_of_fit(file)) std::filesystem::remove(file, ignored);
    remove_residuals(file, run.trainer().store());
  }
  files_.erase(files_.begin(), files_.begin() + std::max<std::int64_t>(std::ssize(files_) - known, 0));
}

// One file that is written by steps is of the last one, and a run that was stopped within an epoch is saved, as finished.
void ModelCheckpoint::on_last_step(FitRun& run) {
  if (!options_.monitor.empty() || interrupted_ || saved_step_ == run.step()) return;
  const bool is_by_steps = is_one_ && options_.every_steps > 0;
  const bool is_within_epoch = run.batch() > 0 && (options_.every_epochs > 0 || options_.every_steps > 0);
  if (is_by_steps || is_within_epoch) save(run, {});
}

void ModelCheckpoint::on_train_end(FitRun& run) {
  if (options_.keep > 0) remove_old(run, options_.keep, true);
}

CallbackState ModelCheckpoint::state() const {
  CallbackState state;
  if (best_) state.numbers["best"] = *best_;
  for (std::size_t i = 0; i < files_.size(); ++i) state.texts[std::to_string(i)] = files_[i];
  return state;
}

void ModelCheckpoint::set_state(const CallbackState& state) {
  best_ = state.numbers.contains("best") ? std::optional(state.numbers.at("best")) : std::nullopt;
  files_.clear();
  for (std::size_t i = 0; state.texts.contains(std::to_string(i)); ++i)
    files_.push_back(state.texts.at(std::to_string(i)));
}

}  // namespace heddle
