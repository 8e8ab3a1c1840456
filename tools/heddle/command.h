// The commands of the program `heddle`: one file each.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "command_line.h"

namespace heddle::tool {

// Runs a command whose options are parsed. Returns the exit status; exceptions have a message for the user.
using Action = std::function<int()>;
using command_line::Program;

// Each add_ function adds one command to the program. If the command line has the command, parsing sets
// `action` to what runs it.
void add_trace(Program& program, Action& action);

// The words behind the first "--" of the command line; nullopt if it has no "--".
using Behind = std::optional<std::vector<std::string>>;
void add_launch(Program& program, Action& action, const Behind& behind);

void add_doctor(Program& program, Action& action);
void add_simulate(Program& program, Action& action);
void add_keygen(Program& program, Action& action);
void add_operators(Program& program, Action& action);
void add_layers(Program& program, Action& action);
void add_metrics(Program& program, Action& action);
void add_model(Program& program, Action& action);
void add_server(Program& program, Action& action);
void add_scheduler(Program& program, Action& action);

}  // namespace heddle::tool
