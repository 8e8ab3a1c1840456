// Parser of files of settings: NAME = VALUE lines, as in TOML outside of tables.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heddle::tool {

struct ConfigLine {
  int line = 0;  // number of the line in the file, from 1
  std::string name, value;
  std::string problem{};  // what is wrong with the line; then name and value are empty
};

// Returns the lines that are neither empty nor comments. Outside of quotes, # begins a comment. A value may
// be in "..." with the escapes \" \\ \n \t, in '...' without escapes, or, unlike TOML, without quotes.
std::vector<ConfigLine> parse_config(std::string_view text);

// Throws std::runtime_error for a file that cannot be read or has more than 1 MiB.
std::string read_config_file(const std::string& path);

}  // namespace heddle::tool
