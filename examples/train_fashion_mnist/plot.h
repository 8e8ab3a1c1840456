// Line charts as self-contained SVG.
#pragma once

#include <string>
#include <utility>
#include <vector>

struct Series {
  std::string name;
  std::string color;                                // such as "#1f77b4"
  bool markers = false;                             // a dot at every point
  std::vector<std::pair<double, double>> points{};  // (x, y), sorted by x
};

struct Panel {
  std::string title, x_label, y_label;
  bool legend_at_top = true;  // whether the legend is at the top or at the bottom of the panel
  std::vector<Series> series{};
};

// Writes a picture of panels side by side under one title. Throws heddle::Error if the file cannot be
// written.
void write_svg(const std::string& path, const std::string& title, const std::vector<Panel>& panels);
