#include "progress_line.h"

#include <cstdio>
#include <unistd.h>
#include <utility>

#include "simulate/units.h"

namespace heddle::tool {

ProgressLine::ProgressLine(std::string what)
    : what_(std::move(what)),
      wanted_(::isatty(STDERR_FILENO) == 1),
      last_(std::chrono::steady_clock::now()) {}

void ProgressLine::show(std::uint64_t done, std::uint64_t all) {
  const auto now = std::chrono::steady_clock::now();
  if (!wanted_ || all == 0 || now - last_ < std::chrono::seconds(1)) return;
  last_ = now;
  shown_ = true;
  const double part = static_cast<double>(done) / static_cast<double>(all);
  std::fprintf(stderr, "\r\033[K%s: %.0f%% of %s", what_.c_str(), 100 * part,
               bytes_to_text(static_cast<double>(all)).c_str());
}

void ProgressLine::end() {
  if (shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

std::function<void(std::uint64_t, std::uint64_t)> ProgressLine::callback() {
  return [this](std::uint64_t done, std::uint64_t all) { show(done, all); };
}

}  // namespace heddle::tool
