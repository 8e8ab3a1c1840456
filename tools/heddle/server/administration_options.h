// Options of `heddle server status` and `heddle server drain`: how to reach a server as its administrator.
#pragma once

#include <chrono>
#include <string>

#include <heddle/administration.h>

#include "command.h"

namespace heddle::tool {

struct AdministrationArguments {
  std::string at, transport = "net", keys, timeout = "5s";
  AdministrationOptions options() const;
};

// Adds the options --at, --transport, --keys and --timeout.
void add_administration_options(command_line::Command& command, AdministrationArguments& arguments);
// Parses a time such as "5s", which is at most an hour. Throws std::runtime_error.
std::chrono::milliseconds milliseconds_from(const std::string& text);
// The message with which milliseconds_from() would refuse the text; empty if the text is valid.
std::string problem_of_time(const std::string& text);

}  // namespace heddle::tool
