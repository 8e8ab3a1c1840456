// A file of settings: NAME = VALUE lines, as TOML has them outside of tables.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heddle::tool {

struct ConfigLine {
  int line = 0;  // from 1
  std::string name, value;
  std::string problem{};  // what is wrong with the line; then there is neither name nor value
};

// The lines that are neither empty nor a comment. # begins a comment outside of quotes. A value may stand in "...", where
// \" \\ \n and \t are known, in '...', where nothing is special, or, unlike TOML, without quotes.
std::vector<ConfigLine> parse_config(std::string_view text);

// Throws std::runtime_error for a file that cannot be read or has more than 1 MiB.
std::string read_config_file(const std::string& path);

}  // namespace heddle::tool
