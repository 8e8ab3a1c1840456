// The template of the page that shows a forecast.
#pragma once

#include <string_view>

namespace heddle::tool {

// chart.html, which the build puts into the program.
extern const std::string_view kChartPage;

}  // namespace heddle::tool
