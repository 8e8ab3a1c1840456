// A progress line on a terminal, for long work.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace heddle::tool {

// Shows progress on stderr if that is a terminal: at most once a second, and not in the first second.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what);
  void show(std::uint64_t done, std::uint64_t all);
  void end();  // clears the progress line from the terminal
  // A function that calls show(); valid as long as this object lives.
  std::function<void(std::uint64_t, std::uint64_t)> callback();

 private:
  const std::string what_;
  const bool wanted_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace heddle::tool
