// The options by which `heddle server status` and `heddle server drain` reach a server as its administrator.
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

// --at, --transport, --keys and --timeout.
void add_administration_options(command_line::Command& command, AdministrationArguments& arguments);
// "5s", an hour at most. Throws std::runtime_error.
std::chrono::milliseconds milliseconds_from(const std::string& text);
// What is wrong with such a text; empty: nothing.
std::string problem_of_time(const std::string& text);

}  // namespace heddle::tool
