// Options of an engine: their limits, and environment variables that set them.
#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>

#include <heddle/engine.h>
#include <heddle/number_text.h>

#include "core/core.h"

namespace heddle {
namespace {

constexpr double kLongest = 1e9;  // most seconds that an option may ask for

bool is_time(double seconds) { return seconds >= 0 && seconds <= kLongest; }

// `number` is the part of the variable's `value` to be parsed.
template <class Number>
Number parse_number(std::string_view number, const char* value, const char* variable, const char* wanted) {
  Number parsed{};
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), parsed);
  if (error != std::errc() || end != number.data() + number.size()) {
    throw InvalidArgument(std::string(variable) + ": got '" + value + "', want " + wanted);
  }
  return parsed;
}

template <class Number> void read_number(const char* variable, Number& number, const char* wanted) {
  const char* value = std::getenv(variable);
  if (value && *value) number = parse_number<Number>(value, value, variable, wanted);
}

void read_seconds(const char* variable, double& seconds) {
  constexpr const char* kWanted = "a number of seconds, 0 for none";
  read_number(variable, seconds, kWanted);
  if (!is_time(seconds))
    throw InvalidArgument(std::string(variable) + ": got '" + std::getenv(variable) + "', want " + kWanted);
}

}  // namespace

void detail::check_options(const EngineOptions& options) {
  if (options.workers < 0 || options.workers > detail::kMostWorkers) {
    throw InvalidArgument("workers: got " + std::to_string(options.workers) +
                          ", want 0 (one a usable core) to 1024");
  }
  if (!is_time(options.watchdog)) {
    throw InvalidArgument("watchdog: got " + number_text(options.watchdog) + ", want 0 (off) to 1e9 seconds");
  }
  if (!is_time(options.spin)) {
    throw InvalidArgument("spin: got " + number_text(options.spin) + ", want 0 to 1e9 seconds");
  }
}

EngineOptions EngineOptions::from_environment() {
  constexpr const char* kSchedulers = "threaded, naive, fuzz or fuzz:SEED";
  EngineOptions options;
  if (const char* value = std::getenv("HEDDLE_SCHEDULER"); value && *value) {
    const std::string_view text = value;
    if (text == "naive") {
      options.scheduler = Scheduler::naive;
    } else if (text == "fuzz" || text.starts_with("fuzz:")) {
      options.scheduler = Scheduler::fuzz;
      if (text != "fuzz")
        options.seed = parse_number<std::uint64_t>(text.substr(5), value, "HEDDLE_SCHEDULER", kSchedulers);
    } else if (text != "threaded") {
      throw InvalidArgument("HEDDLE_SCHEDULER: got '" + std::string(text) + "', want " + kSchedulers);
    }
  }
  constexpr const char* kWorkers = "a number from 1 to 1024, or 0 for one a usable core";
  read_number("HEDDLE_WORKERS", options.workers, kWorkers);
  if (options.workers < 0 || options.workers > detail::kMostWorkers) {
    throw InvalidArgument("HEDDLE_WORKERS: got '" + std::to_string(options.workers) + "', want " + kWorkers);
  }
  read_seconds("HEDDLE_WATCHDOG", options.watchdog);
  read_seconds("HEDDLE_SPIN", options.spin);
  read_number("HEDDLE_MAX_OPS", options.max_ops, "a number of ops, or 0 for no bound");
  read_number("HEDDLE_MAX_BYTES", options.max_bytes, "a number of bytes, or 0 for no bound");
  // Checked here, since the access checker reads HEDDLE_CHECK at process start, where it cannot throw.
  if (const char* value = std::getenv("HEDDLE_CHECK"); value && *value) {
    const std::string_view text = value;
    if (text != "0" && text != "1")
      throw InvalidArgument("HEDDLE_CHECK: got '" + std::string(text) + "', want 1 (on) or 0 (off)");
  }
  return options;
}

}  // namespace heddle
