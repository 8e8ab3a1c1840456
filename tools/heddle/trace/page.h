// The timeline as a page: the template timeline.html with the trace inside. It needs nothing from anywhere else.
#pragma once

#include <string>
#include <string_view>

#include "analysis.h"

namespace heddle::tool {

std::string html_page(const Trace& trace, const Analysis& analysis);

// timeline.html, which the build puts into the program.
extern const std::string_view kTimelinePage;

}  // namespace heddle::tool
