#include "progress.h"

#include <algorithm>
#include <cstdio>
#include <sys/ioctl.h>
#include <unistd.h>

namespace {

constexpr int kLinesAnEpoch = 5;  // number of progress lines per epoch if stdout is no terminal
constexpr int kBarWidth = 24;

std::string bar(double fraction) {
  int filled = static_cast<int>(fraction * kBarWidth);
  std::string text;
  for (int i = 0; i < kBarWidth; ++i) text += i < filled ? "━" : i == filled ? "╸" : " ";
  return text;
}

// Whether the terminal is too narrow for the progress bar: a line that wraps cannot be redrawn.
bool is_narrow() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_col < 100;
}

std::string format(const StepReport& report, double rate, const std::string& left,
                   const std::string& middle) {
  char text[320];
  std::snprintf(text, sizeof text,
                "epoch %lld/%lld %s%3.0f%%  loss %.4f  accuracy %.4f  %.0f images/s  %s left",
                static_cast<long long>(report.epoch), static_cast<long long>(report.epochs), middle.c_str(),
                100.0 * static_cast<double>(report.step) / static_cast<double>(report.steps), report.loss,
                report.accuracy, rate, left.c_str());
  return text;
}

}  // namespace

ProgressLine::ProgressLine(bool silent) : silent_(silent), terminal_(::isatty(STDOUT_FILENO) == 1) {}

double ProgressLine::seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

double ProgressLine::images_per_second() const {
  return static_cast<double>(images_) / std::max(seconds(), 1e-9);
}

std::string ProgressLine::time_left(const StepReport& report) const {
  std::int64_t left = (report.epochs - report.epoch) * report.steps + report.steps - report.step;
  auto seconds_left =
      static_cast<long long>(seconds() / static_cast<double>(steps_) * static_cast<double>(left) + 0.5);
  char text[32];
  std::snprintf(text, sizeof text, "%lld:%02lld", seconds_left / 60, seconds_left % 60);
  return text;
}

void ProgressLine::step(const StepReport& report) {
  images_ += report.images;
  ++steps_;
  if (silent_) return;
  if (terminal_) {
    draw(report);
  } else {
    print_plain(report);
  }
}

void ProgressLine::draw(const StepReport& report) {
  auto now = Clock::now();
  if (report.step < report.steps && now - last_drawn_ < std::chrono::milliseconds(100)) return;
  last_drawn_ = now;
  std::string middle =
      is_narrow() ? "" : bar(static_cast<double>(report.step) / static_cast<double>(report.steps));
  std::printf("\r\033[K%s", format(report, images_per_second(), time_left(report), middle).c_str());
  std::fflush(stdout);
  drawn_ = true;
}

void ProgressLine::print_plain(const StepReport& report) {
  std::int64_t every = std::max<std::int64_t>(1, report.steps / kLinesAnEpoch);
  bool last = report.step == report.steps;
  if (!last && (report.step % every != 0 || report.steps - report.step < every)) return;
  std::printf("%s\n", format(report, images_per_second(), time_left(report), "").c_str());
  std::fflush(stdout);
}

void ProgressLine::line(const std::string& text) {
  if (silent_) return;
  if (drawn_) std::printf("\r\033[K");
  drawn_ = false;
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}
