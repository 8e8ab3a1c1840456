// Parts of the tables that summarize() and memory_report() make.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <heddle/ndarray.h>

namespace heddle::nn_detail {

inline std::int64_t bytes_of(const NDArray& array) {
  return array.size() * static_cast<std::int64_t>(size_of(array.dtype()));
}

inline std::string bytes_text(std::int64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
  return text;
}

// The first cell of a module's row: its text, for a module inside others indented and after its name.
inline std::string name_cell(const std::string& path, const std::string& text) {
  if (path.empty()) return text;
  const auto depth = static_cast<std::size_t>(std::count(path.begin(), path.end(), '.'));
  return std::string(2 * depth + 2, ' ') + path.substr(path.rfind('.') + 1) + ": " + text;
}

// Lines of cells, all of which have as many. The first `left` columns are aligned at the left, the others at the right.
inline std::string table_text(const std::vector<std::vector<std::string>>& lines, std::size_t left) {
  std::vector<std::size_t> widths(lines.front().size());
  for (const auto& cells : lines)
    for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  std::string text;
  for (const auto& cells : lines) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string space(widths[i] - cells[i].size(), ' ');
      text += (i == 0 ? "" : "  ") + (i < left ? cells[i] + space : space + cells[i]);
    }
    text += "\n";
  }
  return text;
}

}  // namespace heddle::nn_detail
