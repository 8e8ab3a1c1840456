// Replaces the commands that use communication or arrays, in a build with HEDDLE_ARRAYS=OFF.
#include <stdexcept>

#include "command.h"

namespace heddle::tool {
namespace {

void add(Program& program, Action& action, const std::string& name,
         const std::string& missing = "communication") {
  command_line::Command command = program.add_command(name, "Not in this build: it has no " + missing + ".");
  command.allow_extras();
  command.on_parsed([&action, name, missing] {
    action = [name, missing]() -> int {
      throw std::runtime_error(name + ": this build has no " + missing + " (HEDDLE_ARRAYS=OFF)");
    };
  });
}

}  // namespace

void add_doctor(Program& program, Action& action) { add(program, action, "doctor"); }
void add_keygen(Program& program, Action& action) { add(program, action, "keygen"); }
void add_operators(Program& program, Action& action) { add(program, action, "operators", "arrays"); }
void add_layers(Program& program, Action& action) { add(program, action, "layers", "arrays"); }
void add_metrics(Program& program, Action& action) { add(program, action, "metrics", "arrays"); }
void add_model(Program& program, Action& action) { add(program, action, "model", "arrays"); }
void add_server(Program& program, Action& action) { add(program, action, "server"); }
void add_scheduler(Program& program, Action& action) { add(program, action, "scheduler"); }
void add_simulate(Program& program, Action& action) { add(program, action, "simulate"); }

}  // namespace heddle::tool
