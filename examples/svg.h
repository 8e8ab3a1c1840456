// Small pictures as SVG files, drawn in the coordinates of the data. Later elements lie on top of earlier
// ones. Nothing is escaped: a colour is a name or #rgb, and a text must have no < and no &.
#pragma once

#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace svg {

class Picture {
 public:
  // The data range (left, bottom) to (right, top) fills the picture except for a margin; width and height are
  // in pixels. `notes`: how many lines of note() there is room for, below the range.
  Picture(double left, double right, double bottom, double top, int width = 480, int height = 320,
          int notes = 0)
      : left_(left),
        right_(right),
        bottom_(bottom),
        top_(top),
        width_(width),
        height_(height),
        notes_(notes) {}

  void point(double x, double y, const std::string& color, double radius = 2.5) {
    body_ += "<circle cx='" + at_x(x) + "' cy='" + at_y(y) + "' r='" + number(radius) + "' fill='" + color +
             "'/>\n";
  }
  void points(const std::vector<double>& x, const std::vector<double>& y, const std::string& color) {
    for (std::size_t i = 0; i < x.size(); ++i) point(x[i], y[i], color);
  }
  void line(const std::vector<double>& x, const std::vector<double>& y, const std::string& color,
            double width = 2) {
    body_ += "<polyline points='" + places(x, y) + "' fill='none' stroke='" + color + "' stroke-width='" +
             number(width) + "'/>\n";
  }
  void polygon(const std::vector<double>& x, const std::vector<double>& y, const std::string& color) {
    body_ += "<polygon points='" + places(x, y) + "' fill='" + color + "'/>\n";
  }
  // Draws a square whose lower left corner is (x, y).
  void cell(double x, double y, double side, const std::string& color) {
    const std::string wide = number(pixel_x(x + side) - pixel_x(x));
    const std::string high = number(pixel_y(y) - pixel_y(y + side));
    body_ += "<path d='M" + at_x(x) + " " + at_y(y + side) + "h" + wide + "v" + high + "h-" + wide +
             "' fill='" + color + "'/>\n";
  }
  // Draws an image whose lower left corner is (x, y), without blurring its pixels. `uri`: such as data:image/png;base64,...
  void image(double x, double y, double wide, double high, const std::string& uri) {
    body_ += "<image x='" + at_x(x) + "' y='" + at_y(y + high) + "' width='" +
             number(pixel_x(x + wide) - pixel_x(x)) + "' height='" + number(pixel_y(y) - pixel_y(y + high)) +
             "' preserveAspectRatio='none' style='image-rendering:pixelated' href='" + uri + "'/>\n";
  }
  void text(double x, double y, const std::string& words, const std::string& color = "#333") {
    body_ += "<text x='" + at_x(x) + "' y='" + at_y(y) + "' fill='" + color + "'>" + words + "</text>\n";
  }
  // Writes the next line of the notes; any characters.
  void note(const std::string& words, const std::string& color = "#333") {
    std::string escaped;
    for (char c : words) escaped += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
    const int y = height_ + kNote * written_++;
    body_ += "<text x='" + std::to_string(kMargin) + "' y='" + std::to_string(y) + "' fill='" + color +
             "' xml:space='preserve'>" + escaped + "</text>\n";
  }
  // Draws the left and the bottom axis, each with a few round numbers.
  void axes() {
    line({left_, left_, right_}, {top_, bottom_, bottom_}, "#333", 1);
    for (double x : round_numbers(left_, right_)) {
      body_ += label(pixel_x(x), height_ - kMargin + 16, "middle", x);
    }
    for (double y : round_numbers(bottom_, top_)) body_ += label(kMargin - 6, pixel_y(y) + 4, "end", y);
  }

  // Prints a message and returns false if the file cannot be written.
  bool save(const std::string& path) const {
    std::ofstream file(path);
    const int high = height_ + kNote * notes_;
    file << "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 " << width_ << " " << high << "' width='"
         << width_ << "' height='" << high << "' font-family='sans-serif' font-size='11'>\n"
         << "<rect width='100%' height='100%' fill='#fff'/>\n"
         << body_ << "</svg>\n";
    if (file.flush()) return true;
    std::fprintf(stderr, "%s cannot be written\n", path.c_str());
    return false;
  }

 private:
  static constexpr int kMargin = 32, kNote = 15;

  double pixel_x(double x) const { return kMargin + (x - left_) / (right_ - left_) * (width_ - 2 * kMargin); }
  double pixel_y(double y) const {
    return height_ - kMargin - (y - bottom_) / (top_ - bottom_) * (height_ - 2 * kMargin);
  }
  std::string at_x(double x) const { return number(pixel_x(x)); }
  std::string at_y(double y) const { return number(pixel_y(y)); }

  static std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.4g", std::round(value * 10) / 10);
    return text;
  }
  static std::string label(double x, double y, const char* anchor, double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", value);
    return "<text x='" + number(x) + "' y='" + number(y) + "' text-anchor='" + anchor + "' fill='#333'>" +
           text + "</text>\n";
  }
  std::string places(const std::vector<double>& x, const std::vector<double>& y) const {
    std::string result;
    for (std::size_t i = 0; i < x.size(); ++i) result += (i > 0 ? " " : "") + at_x(x[i]) + "," + at_y(y[i]);
    return result;
  }
  // About four multiples of 1, 2 or 5 times a power of ten between low and high.
  static std::vector<double> round_numbers(double low, double high) {
    const double raw = (high - low) / 4, power = std::pow(10, std::floor(std::log10(raw)));
    const double step = power * (raw < 2 * power ? 1 : raw < 5 * power ? 2 : 5);
    std::vector<double> result;
    for (double i = std::ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i) {
      result.push_back(i * step + 0.0);  // + 0.0 turns -0 into 0
    }
    return result;
  }

  double left_, right_, bottom_, top_;
  int width_, height_, notes_, written_ = 0;
  std::string body_;
};

}  // namespace svg
