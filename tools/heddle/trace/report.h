// Writes the analysis of a trace as text and as JSON.
#pragma once

#include <cstddef>
#include <string>

#include "analysis.h"

namespace heddle::tool {

struct TextOptions {
  std::size_t top = 10;  // how many lines a list of the report has at most
  bool path = false;     // whether the report lists each op of the critical path
};

// The report as text for people.
std::string text_report(const Trace& trace, const Analysis& analysis, const TextOptions& options);

// The report as JSON for programs: one object, whose times are in nanoseconds.
std::string json_report(const Trace& trace, const Analysis& analysis);

// The text that names the process at the beginning of its lanes' names; empty if the trace has one process.
std::string process_prefix(const Trace& trace, std::uint64_t process);

// The name of a lane, after the prefix of its process.
std::string lane_name(const Trace& trace, std::uint32_t lane);

}  // namespace heddle::tool
