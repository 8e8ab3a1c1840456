// The subcommands of `heddle server`.
#pragma once

#include "command.h"

namespace heddle::tool {

void add_server_drain(command_line::Command& server, Action& action);
void add_server_status(command_line::Command& server, Action& action);
void add_server_plan(command_line::Command& server, Action& action);
void add_server_verify(command_line::Command& server, Action& action);
void add_server_restore(command_line::Command& server, Action& action);

}  // namespace heddle::tool
