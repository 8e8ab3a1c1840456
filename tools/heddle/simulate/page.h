// The template of the HTML page that shows a forecast.
#pragma once

#include <string_view>

namespace heddle::tool {

// The text of chart.html, which the build embeds in the program.
extern const std::string_view kChartPage;

}  // namespace heddle::tool
