// memory_report() of a training step: which module takes how much memory.
//
//   std::cout << memory_report(net, trainer, [&] { backward(loss(net(x), y)); trainer.step(); });
#pragma once

#include <cstddef>
#include <functional>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include <heddle/module.h>

namespace heddle {

// Bytes of a module and of those inside it; of a module that is there twice where it stands first.
struct ModuleMemory {
  std::string path;            // "encoder.0"; "" for the whole
  std::string text;            // as ModuleRow::text
  std::size_t parameters = 0;  // parameters and buffers
  std::size_t gradients = 0;   // of parameters that are not frozen
  std::size_t state = 0;       // the optimizer's, for these parameters
  std::size_t activations =
      0;  // most bytes at once of arrays that its calls made, plus those of modules inside
};

struct StepMemory {
  std::vector<ModuleMemory> rows;  // the whole first, then its children in the order of registration
  std::size_t others = 0;  // at the peak, of arrays made outside of all calls: gradients, losses, batches
  std::size_t peak =
      0;  // most bytes at once of all arrays that the step made: it depends on which ops ran first
  std::string to_string() const;  // a table with the sums below
};

// Runs `step`, which calls `module` and does a whole training step, twice: once to make what the first step makes, once to
// count. `state` gives the optimizer's arrays, as Trainer::state() names them. Turns track_memory() on meanwhile; arrays
// that other threads make count as others. Memory that kernels use while they run does not count. Blocks.
StepMemory memory_report(Module& module, const std::function<std::map<std::string, NDArray>()>& state,
                         const std::function<void()>& step, Where where = Where::current());

std::ostream& operator<<(std::ostream& out, const StepMemory& memory);  // memory.to_string()

}  // namespace heddle
