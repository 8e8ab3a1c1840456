// An analysis as text and as JSON.
#pragma once

#include <cstddef>
#include <string>

#include "analysis.h"

namespace heddle::tool {

struct TextOptions {
  std::size_t top = 10;  // the most lines of each list
  bool path = false;     // whether to list each op of the critical path
};

// A report for people.
std::string text_report(const Trace& trace, const Analysis& analysis, const TextOptions& options);

// A report for programs: one object, times in nanoseconds.
std::string json_report(const Trace& trace, const Analysis& analysis);

// Prefix of the names of a process's lanes; empty if the trace has only one process.
std::string process_prefix(const Trace& trace, std::uint64_t process);

// Name of a lane; with its process, if there are several.
std::string lane_name(const Trace& trace, std::uint32_t lane);

}  // namespace heddle::tool
