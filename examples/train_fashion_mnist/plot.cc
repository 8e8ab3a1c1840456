#include "plot.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include <heddle/error.h>

namespace {

constexpr double kWidth = 460, kHeight = 340;                       // size of a panel in pixels
constexpr double kLeft = 64, kRight = 20, kTop = 64, kBottom = 56;  // margins around a panel's axes
constexpr double kPlotWidth = kWidth - kLeft - kRight, kPlotHeight = kHeight - kTop - kBottom;
constexpr const char* kInk = "#333";

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string escape(const std::string& text) {
  std::string safe;
  for (char c : text) safe += c == '<' ? "&lt;" : c == '&' ? "&amp;" : c == '>' ? "&gt;" : std::string(1, c);
  return safe;
}

std::string text_at(double x, double y, const std::string& anchor, double size, const std::string& text,
                    const std::string& more = "") {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + anchor + "\" font-size=\"" +
         number(size) + "\" fill=\"" + kInk + "\"" + more + ">" + escape(text) + "</text>\n";
}

std::string line(double x1, double y1, double x2, double y2, const std::string& color, double width) {
  return "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) + "\" y2=\"" +
         number(y2) + "\" stroke=\"" + color + "\" stroke-width=\"" + number(width) + "\"/>\n";
}

// An axis whose ticks are 1, 2 or 5 times a power of ten apart and enclose the data.
struct Axis {
  double low, high, step;

  static Axis around(double low, double high) {
    if (!(high > low)) high = low + 1;
    double raw = (high - low) / 5, power = std::pow(10, std::floor(std::log10(raw)));
    double factor = raw / power <= 1 ? 1 : raw / power <= 2 ? 2 : raw / power <= 5 ? 5 : 10;
    double step = factor * power;
    return {std::floor(low / step + 1e-9) * step, std::ceil(high / step - 1e-9) * step, step};
  }
  double fraction(double value) const { return (value - low) / (high - low); }
  int ticks() const { return static_cast<int>(std::lround((high - low) / step)) + 1; }
  double tick(int i) const {
    double value = low + step * i;
    return std::abs(value) < step * 1e-9 ? 0 : value;
  }
};

// The range of a curve's values. A long curve is cut off at a few extreme points, which would flatten the
// rest.
std::pair<double, double> typical_range(const Series& series) {
  std::vector<double> values;
  for (auto [x, y] : series.points) values.push_back(y);
  std::sort(values.begin(), values.end());
  std::size_t skipped = series.markers ? 0 : values.size() / 20;
  return {values[skipped], values[values.size() - 1 - skipped]};
}

class PanelDrawing {
 public:
  PanelDrawing(const Panel& panel, double left) : panel_(panel), left_(left + kLeft) {
    double x_low = 0, x_high = 0, y_low = HUGE_VAL, y_high = -HUGE_VAL;
    for (const Series& series : panel.series) {
      if (series.points.empty()) continue;
      x_high = std::max(x_high, series.points.back().first);
      auto [low, high] = typical_range(series);
      y_low = std::min(y_low, low);
      y_high = std::max(y_high, high);
    }
    if (y_low > y_high) y_low = 0, y_high = 1;
    x_ = Axis::around(x_low, x_high);
    x_.high = x_high > 0 ? x_high : 1;
    y_ = Axis::around(y_low, y_high);
  }

  std::string draw() const {
    std::string name = "inside" + number(left_);
    std::string svg = axes() + "<clipPath id=\"" + name + "\"><rect x=\"" + number(left_) + "\" y=\"" +
                      number(kTop - 5) + "\" width=\"" + number(kPlotWidth + 5) + "\" height=\"" +
                      number(kPlotHeight + 5) + "\"/></clipPath>\n<g clip-path=\"url(#" + name + ")\">\n";
    for (const Series& series : panel_.series) svg += curve(series);
    return svg + "</g>\n" + legend();
  }

 private:
  double x_at(double value) const { return left_ + x_.fraction(value) * kPlotWidth; }
  double y_at(double value) const { return kTop + (1 - y_.fraction(value)) * kPlotHeight; }

  std::string axes() const {
    double bottom = kTop + kPlotHeight, right = left_ + kPlotWidth;
    std::string svg =
        text_at(left_ + kPlotWidth / 2, kTop - 12, "middle", 14, panel_.title, " font-weight=\"600\"");
    for (int i = 0; i < y_.ticks(); ++i) {
      double y = y_at(y_.tick(i));
      svg += line(left_, y, right, y, "#e4e4e4", 1) + line(left_ - 4, y, left_, y, kInk, 1);
      svg += text_at(left_ - 8, y + 4, "end", 11, number(y_.tick(i)));
    }
    for (int i = 0; x_.tick(i) <= x_.high * (1 + 1e-9); ++i) {
      double x = x_at(x_.tick(i));
      svg +=
          line(x, bottom, x, bottom + 4, kInk, 1) + text_at(x, bottom + 18, "middle", 11, number(x_.tick(i)));
    }
    svg += line(left_, kTop, left_, bottom, kInk, 1) + line(left_, bottom, right, bottom, kInk, 1);
    svg += text_at(left_ + kPlotWidth / 2, bottom + 40, "middle", 12, panel_.x_label);
    double label_x = left_ - 48, label_y = kTop + kPlotHeight / 2;
    return svg + text_at(label_x, label_y, "middle", 12, panel_.y_label,
                         " transform=\"rotate(-90 " + number(label_x) + " " + number(label_y) + ")\"");
  }

  std::string curve(const Series& series) const {
    std::string points, dots;
    for (auto [x, y] : series.points) {
      points += number(x_at(x)) + "," + number(y_at(y)) + " ";
      dots += "<circle cx=\"" + number(x_at(x)) + "\" cy=\"" + number(y_at(y)) + "\" r=\"3.5\" fill=\"" +
              series.color + "\" stroke=\"#fff\"/>\n";
    }
    return "<polyline fill=\"none\" stroke=\"" + series.color +
           "\" stroke-width=\"2\" stroke-linejoin=\"round\" points=\"" + points + "\"/>\n" +
           (series.markers ? dots : "");
  }

  std::string legend() const {
    constexpr double kLine = 20, kBoxWidth = 104;
    double height = kLine * static_cast<double>(panel_.series.size()) + 8;
    double x = left_ + kPlotWidth - kBoxWidth - 8;
    double y = panel_.legend_at_top ? kTop + 8 : kTop + kPlotHeight - height - 8;
    std::string svg = "<rect x=\"" + number(x) + "\" y=\"" + number(y) + "\" width=\"" + number(kBoxWidth) +
                      "\" height=\"" + number(height) + "\" rx=\"4\" fill=\"#fff\" stroke=\"#ccc\"/>\n";
    for (const Series& series : panel_.series) {
      double middle = y + 4 + kLine / 2;
      svg += line(x + 8, middle, x + 30, middle, series.color, 2);
      if (series.markers) {
        svg += "<circle cx=\"" + number(x + 19) + "\" cy=\"" + number(middle) + "\" r=\"3.5\" fill=\"" +
               series.color + "\"/>\n";
      }
      svg += text_at(x + 38, middle + 4, "start", 12, series.name);
      y += kLine;
    }
    return svg;
  }

  const Panel& panel_;
  double left_;
  Axis x_{}, y_{};
};

}  // namespace

void write_svg(const std::string& path, const std::string& title, const std::vector<Panel>& panels) {
  double width = kWidth * static_cast<double>(panels.size());
  std::ostringstream svg;
  svg << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << number(width) << "\" height=\""
      << number(kHeight) << "\" viewBox=\"0 0 " << number(width) << " " << number(kHeight)
      << "\" font-family=\"Helvetica, Arial, sans-serif\">\n"
      << "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
      << text_at(width / 2, 28, "middle", 17, title, " font-weight=\"600\"");
  double left = 0;
  for (const Panel& panel : panels) {
    svg << PanelDrawing(panel, left).draw();
    left += kWidth;
  }
  svg << "</svg>\n";
  std::ofstream file(path);
  if (file << svg.str() << std::flush) return;
  throw heddle::Error("plot '" + path + "' cannot be written: " + std::strerror(errno));
}
