// heddle doctor of a build with HEDDLE_ARRAYS=OFF.
#include <stdexcept>

#include "command.h"

namespace heddle::tool {

void add_doctor(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("doctor", "Not in this build: it has no communication.");
  command->callback([&action] {
    action = []() -> int {
      throw std::runtime_error("doctor: this build has no communication (HEDDLE_ARRAYS=OFF)");
    };
  });
}

}  // namespace heddle::tool
