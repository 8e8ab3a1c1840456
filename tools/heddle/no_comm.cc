// What looks at communication, in a build with HEDDLE_ARRAYS=OFF.
#include <stdexcept>

#include "command.h"

namespace heddle::tool {
namespace {

void add(CLI::App& program, Action& action, const std::string& name) {
  CLI::App* command = program.add_subcommand(name, "Not in this build: it has no communication.");
  command->allow_extras();
  command->callback([&action, name] {
    action = [name]() -> int {
      throw std::runtime_error(name + ": this build has no communication (HEDDLE_ARRAYS=OFF)");
    };
  });
}

}  // namespace

void add_doctor(CLI::App& program, Action& action) { add(program, action, "doctor"); }
void add_keygen(CLI::App& program, Action& action) { add(program, action, "keygen"); }
void add_simulate(CLI::App& program, Action& action) { add(program, action, "simulate"); }

}  // namespace heddle::tool
