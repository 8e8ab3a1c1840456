// Line charts as self-contained SVG.
#pragma once

#include <string>
#include <utility>
#include <vector>

struct Series {
  std::string name;
  std::string color;                                // such as "#1f77b4"
  bool markers = false;                             // a dot at every point
  std::vector<std::pair<double, double>> points{};  // x ascending
};

struct Panel {
  std::string title, x_label, y_label;
  bool legend_at_top = true;  // false: at the bottom; chosen to avoid the curves
  std::vector<Series> series{};
};

// Panels side by side under one title. Throws heddle::Error if the file cannot be written.
void write_svg(const std::string& path, const std::string& title, const std::vector<Panel>& panels);
