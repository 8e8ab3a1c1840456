#include "page.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "forecast.h"

namespace heddle::tool {
namespace {

constexpr std::string_view kForecastGoesHere = "HEDDLE_FORECAST";
constexpr double kWidth = 860, kHeight = 420, kLeft = 56, kRight = 170, kTop = 16, kBottom = 44;
constexpr const char* kColours[] = {"#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b"};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

// The chart of a forecast: the number of ranks on a logarithmic x axis, the efficiency on the y axis.
class Chart {
 public:
  explicit Chart(const Forecast& forecast)
      : forecast_(forecast),
        least_(std::log2(*std::min_element(forecast.ranks.begin(), forecast.ranks.end()))),
        most_(std::log2(*std::max_element(forecast.ranks.begin(), forecast.ranks.end()))) {}

  std::string draw() {
    out_ = "<svg viewBox=\"0 0 " + number(kWidth) + " " + number(kHeight) + "\" width=\"" + number(kWidth) +
           "\" role=\"img\" aria-label=\"speed kept over ranks\">\n";
    for (int percent = 0; percent <= 100; percent += 20) draw_level(percent);
    for (const int ranks : forecast_.ranks) {
      text(x(ranks), kHeight - kBottom + 18, "middle", std::to_string(ranks));
    }
    text((kLeft + kWidth - kRight) / 2, kHeight - 6, "middle", "ranks");
    for (std::size_t scheme = 0; scheme < forecast_.schemes.size(); ++scheme) draw_curve(scheme);
    return out_ + "</svg>\n";
  }

 private:
  double x(int ranks) const {
    const double share = most_ > least_ ? (std::log2(ranks) - least_) / (most_ - least_) : 0.5;
    return kLeft + share * (kWidth - kLeft - kRight);
  }
  static double y(double share) { return kHeight - kBottom - share * (kHeight - kTop - kBottom); }

  void text(double at_x, double at_y, const char* anchor, const std::string& what) {
    out_ += "<text x=\"" + number(at_x) + "\" y=\"" + number(at_y) + "\" text-anchor=\"" + anchor + "\">" +
            escaped(what) + "</text>\n";
  }

  void draw_level(int percent) {
    const std::string at = number(y(percent / 100.0));
    out_ += "<line class=\"grid\" x1=\"" + number(kLeft) + "\" x2=\"" + number(kWidth - kRight) + "\" y1=\"" +
            at + "\" y2=\"" + at + "\"/>\n";
    text(kLeft - 6, y(percent / 100.0) + 4, "end", std::to_string(percent) + " %");
  }

  void draw_curve(std::size_t scheme) {
    const std::string colour = kColours[scheme % std::size(kColours)];
    std::string points, marks;
    for (std::size_t row = 0; row < forecast_.ranks.size(); ++row) {
      const double kept = forecast_.outcomes[row][scheme].efficiency;
      const std::string at_x = number(x(forecast_.ranks[row])), at_y = number(y(kept));
      points += at_x + "," + at_y + " ";
      marks += "<circle cx=\"" + at_x + "\" cy=\"" + at_y + "\" r=\"3\" fill=\"" + colour + "\"><title>" +
               escaped(forecast_.schemes[scheme].name) + ", " + std::to_string(forecast_.ranks[row]) +
               " ranks: " + number(kept * 100) + " %</title></circle>\n";
    }
    out_ += "<polyline class=\"curve\" stroke=\"" + colour + "\" points=\"" + points + "\"/>\n" + marks;
    const double at = kTop + 20 * (static_cast<double>(scheme) + 1);
    out_ += "<rect x=\"" + number(kWidth - kRight + 16) + "\" y=\"" + number(at - 9) +
            "\" width=\"10\" height=\"10\" fill=\"" + colour + "\"/>\n";
    text(kWidth - kRight + 32, at, "start", forecast_.schemes[scheme].name);
  }

  const Forecast& forecast_;
  const double least_, most_;
  std::string out_;
};

}  // namespace

std::string forecast_page(const Forecast& forecast) {
  const std::size_t at = kChartPage.find(kForecastGoesHere);
  return std::string(kChartPage.substr(0, at)) + Chart(forecast).draw() + "<pre>" +
         escaped(forecast_text(forecast)) + "</pre>" +
         std::string(kChartPage.substr(at + kForecastGoesHere.size()));
}

}  // namespace heddle::tool
