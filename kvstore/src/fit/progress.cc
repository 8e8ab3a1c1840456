#include <algorithm>
#include <cstdio>
#include <unistd.h>
#include <utility>

#include <heddle/fit_reports.h>

namespace heddle {
namespace {

constexpr auto kBetween = std::chrono::milliseconds(100);  // between two drawings of a line

std::string text_of(const char* format, double number) {
  char text[64];
  std::snprintf(text, sizeof text, format, number);
  return text;
}

std::string time_text(double seconds) {
  const auto all = static_cast<long long>(std::max(seconds, 0.0) + 0.5);
  char text[64];
  if (all < 3600) {
    std::snprintf(text, sizeof text, "%lld:%02lld", all / 60, all % 60);
  } else {
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", all / 3600, all / 60 % 60, all % 60);
  }
  return text;
}

// "  loss 0.3512  accuracy 0.9012", in the order of `names`.
std::string values_text(const std::vector<std::string>& names, const FitValues& values) {
  std::string text;
  for (const std::string& name : names) {
    const auto value = values.find(name);
    if (value != values.end())
      text += "  " + name + " " + text_of(name == "lr" ? "%.3g" : "%.4f", value->second);
  }
  return text;
}

// The values that exist within an epoch.
std::vector<std::string> training_names(const FitRun& run) {
  std::vector<std::string> names;
  for (const std::string& name : run.value_names())
    if (!name.starts_with("val_") && name != "lr") names.push_back(name);
  return names;
}

}  // namespace

Progress::Progress(ProgressOptions options) : options_(std::move(options)) {
  if (options_.lines < 0)
    throw InvalidArgument("Progress: lines is " + std::to_string(options_.lines) + "; want 0 or more");
  terminal_ = options_.terminal.value_or(!options_.write && ::isatty(STDOUT_FILENO) == 1);
  if (options_.write) return;
  options_.write = [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
}

void Progress::show(const std::string& text, bool keep) {
  options_.write((drawn_ ? "\r\x1b[K" : "") + text + (keep ? "\n" : ""));
  drawn_ = !keep;
}

std::string Progress::head(const FitRun& run) const {
  return "epoch " + std::to_string(run.epoch() + 1) + "/" + std::to_string(run.epochs());
}

void Progress::on_epoch_begin(FitRun& run) {
  start_ = last_ = Clock::now();
  first_batch_ = run.batch();
  first_examples_ = run.examples();
}

void Progress::on_batch_end(FitRun& run) {
  if (run.rank() != 0) return;
  const Clock::time_point now = Clock::now();
  const std::int64_t all = run.batches();
  if (terminal_ ? now - last_ < kBetween
                : options_.lines == 0 || all < 0 || run.batch() * options_.lines / all == shown_part_ ||
                      run.batch() >= all)
    return;
  last_ = now;
  if (all > 0) shown_part_ = run.batch() * options_.lines / all;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double rate = static_cast<double>((run.examples() - first_examples_) * run.ranks()) / seconds;
  std::string text = head(run) + "  batch " + std::to_string(run.batch());
  if (all > 0) text += "/" + std::to_string(all);
  text += "  " + text_of("%.0f", rate) + " examples/s";
  if (all > 0) {
    const auto done = static_cast<double>(run.batch() - first_batch_);
    const auto left = static_cast<double>(all - run.batch() + (run.epochs() - run.epoch() - 1) * all);
    text += "  " + time_text(seconds / done * left) + " left";
  }
  const std::vector<std::string> names = training_names(run);
  run.later(names, [this, text, names](const FitValues& values) {
    show(text + values_text(names, values), !terminal_);
  });
}

void Progress::on_epoch_end(FitRun& run, const FitValues& values) {
  shown_part_ = 0;
  if (run.rank() != 0) return;
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  show(head(run) + values_text(run.value_names(), values) + "  " + time_text(seconds), true);
}

void Progress::on_train_end(FitRun& run) {
  if (run.rank() == 0 && drawn_) show("", true);
}

}  // namespace heddle
