// An analysis in words and as JSON.
#pragma once

#include <cstddef>
#include <string>

#include "analysis.h"

namespace heddle::tool {

struct TextOptions {
  std::size_t top = 10;  // the most lines of each list
  bool path = false;     // the single ops of the critical path are listed too
};

// For people.
std::string text_report(const Trace& trace, const Analysis& analysis, const TextOptions& options);

// For programs: one object, times in nanoseconds.
std::string json_report(const Trace& trace, const Analysis& analysis);

// What stands before the names of a process's lanes: nothing where there is only one.
std::string process_prefix(const Trace& trace, std::uint64_t process);

// What a lane is called: with its process, where there are several.
std::string lane_name(const Trace& trace, std::uint32_t lane);

}  // namespace heddle::tool
