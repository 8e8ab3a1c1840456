#include "config_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>

namespace heddle::tool {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;
constexpr std::string_view kBlank = " \t\r";

struct BadLine : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

bool is_name(std::string_view text) {
  for (const char one : text) {
    const bool good = (one >= 'a' && one <= 'z') || (one >= '0' && one <= '9') || one == '-' || one == '_';
    if (!good) return false;
  }
  return !text.empty();
}

char escaped(char one) {
  switch (one) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case '"':
    case '\\':
      return one;
    default:
      throw BadLine(std::string("unknown escape \\") + one + R"(; there is \" \\ \n \t)");
  }
}

// Reads a quoted value. `text` starts behind the opening quote; afterwards it starts behind the closing one.
std::string quoted(std::string_view& text, char quote) {
  std::string value;
  while (!text.empty() && text.front() != quote) {
    const bool escape = quote == '"' && text.front() == '\\';
    if (escape) text.remove_prefix(1);
    if (text.empty()) break;
    value += escape ? escaped(text.front()) : text.front();
    text.remove_prefix(1);
  }
  if (text.empty()) throw BadLine(std::string("the closing ") + quote + " is missing");
  text.remove_prefix(1);
  return value;
}

std::string value_of(std::string_view text) {
  if (!text.empty() && (text.front() == '"' || text.front() == '\'')) {
    const char quote = text.front();
    text.remove_prefix(1);
    std::string value = quoted(text, quote);
    const std::string_view rest = trim(text);
    if (!rest.empty() && rest.front() != '#') throw BadLine("something stands behind the value");
    return value;
  }
  const std::string_view bare = trim(text.substr(0, text.find('#')));
  if (bare.empty()) throw BadLine("the value is missing; nothing is written \"\"");
  if (bare.find_first_of("\"'") != std::string_view::npos)
    throw BadLine("a quote inside a value without quotes");
  return std::string(bare);
}

ConfigLine config_line(std::string_view text, int number) {
  try {
    if (text.front() == '[') throw BadLine("settings stand in no table; want NAME = VALUE");
    const std::size_t equals = text.find('=');
    const std::string_view name = trim(text.substr(0, equals));
    if (equals == std::string_view::npos || !is_name(name)) throw BadLine("want NAME = VALUE");
    return {number, std::string(name), value_of(trim(text.substr(equals + 1)))};
  } catch (const BadLine& error) {
    return {number, "", "", error.what()};
  }
}

}  // namespace

std::vector<ConfigLine> parse_config(std::string_view text) {
  std::vector<ConfigLine> lines;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view line = trim(text.substr(0, end));
    if (!line.empty() && line.front() != '#') lines.push_back(config_line(line, number));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

std::string read_config_file(const std::string& path) {
  std::error_code none;
  if (std::filesystem::is_directory(path, none)) throw std::runtime_error(path + " is a directory");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path + ": " + std::strerror(errno));
  std::string text(kMostBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMostBytes) throw std::runtime_error(path + " has more than 1 MiB");
  return text;
}

}  // namespace heddle::tool
