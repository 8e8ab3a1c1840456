// heddle simulate of a build with HEDDLE_ARRAYS=OFF.
#include <stdexcept>

#include "command.h"

namespace heddle::tool {

void add_simulate(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("simulate", "Not in this build: it has no communication.");
  command->allow_extras();
  command->callback([&action] {
    action = []() -> int {
      throw std::runtime_error("simulate: this build has no communication (HEDDLE_ARRAYS=OFF)");
    };
  });
}

}  // namespace heddle::tool
