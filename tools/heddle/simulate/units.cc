#include "units.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <string_view>

namespace heddle::tool {
namespace {

struct Unit {
  std::string_view name;
  double value;
};

constexpr Unit kSeconds[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
constexpr Unit kRates[] = {{"Gbit/s", 1e9 / 8}, {"Mbit/s", 1e6 / 8}, {"kbit/s", 1e3 / 8}, {"bit/s", 0.125},
                           {"GB/s", 1e9},       {"MB/s", 1e6},       {"kB/s", 1e3},       {"B/s", 1},
                           {"GiB/s", 1 << 30},  {"MiB/s", 1 << 20},  {"KiB/s", 1 << 10}};
constexpr Unit kBytes[] = {{"", 1},
                           {"B", 1},
                           {"kB", 1e3},
                           {"KB", 1e3},
                           {"MB", 1e6},
                           {"GB", 1e9},
                           {"KiB", 1 << 10},
                           {"MiB", 1 << 20},
                           {"GiB", 1 << 30},
                           {"TB", 1e12},
                           {"TiB", 1099511627776.0}};

double number_from(const std::string& text, std::span<const Unit> units, const char* wanted) {
  double value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && value >= 0 && std::isfinite(value)) {
    const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
    for (const Unit& one : units) {
      if (unit == one.name) return value * one.value;
    }
  }
  throw std::runtime_error("'" + text + "': want " + wanted);
}

std::string with_unit(double value, const char* unit) {
  char text[64];
  std::snprintf(text, sizeof text, "%.4g %s", value, unit);
  return text;
}

}  // namespace

double seconds_from(const std::string& text) {
  return number_from(text, kSeconds, "a time like 20us, 1.5ms, 2s");
}

double seconds_a_byte_from(const std::string& text) {
  const double rate = number_from(text, kRates, "a rate like 25Gbit/s, 3GB/s, more than 0");
  if (!(rate > 0)) throw std::runtime_error("'" + text + "': want a rate like 25Gbit/s, 3GB/s, more than 0");
  return 1 / rate;
}

double bytes_from(const std::string& text) {
  return number_from(text, kBytes,
                     "bytes like 4096 or 8GiB; units are kB, MB, GB, TB, KiB, MiB, GiB and TiB");
}

std::string seconds_to_text(double seconds) {
  if (seconds >= 1) return with_unit(seconds, "s");
  if (seconds >= 1e-3) return with_unit(seconds * 1e3, "ms");
  return with_unit(seconds * 1e6, "us");
}

std::string rate_to_text(double seconds_a_byte) {
  return seconds_a_byte > 0 ? with_unit(8e-9 / seconds_a_byte, "Gbit/s") : "no limit";
}

std::string bytes_to_text(double bytes) {
  if (bytes >= 1 << 30) return with_unit(bytes / (1 << 30), "GiB");
  if (bytes >= 1 << 20) return with_unit(bytes / (1 << 20), "MiB");
  if (bytes >= 1 << 10) return with_unit(bytes / (1 << 10), "KiB");
  return with_unit(bytes, "B");
}

}  // namespace heddle::tool
