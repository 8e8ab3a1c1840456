// The timeline as a self-contained HTML page: the template timeline.html with the trace inside.
#pragma once

#include <string>
#include <string_view>

#include "analysis.h"

namespace heddle::tool {

std::string html_page(const Trace& trace, const Analysis& analysis);

// The text of timeline.html, which the build embeds in the program.
extern const std::string_view kTimelinePage;

}  // namespace heddle::tool
