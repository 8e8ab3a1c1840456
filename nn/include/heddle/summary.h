// summarize(): what a module holds, computes and costs, as a table.
//
//   std::cout << summarize(net, {zeros({64, 1, 28, 28})});
#pragma once

#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include <heddle/module.h>

namespace heddle {

// One module of a tree. Numbers of a module are those of its own and of the modules inside it; a module that is there twice counts
// where it stands first.
struct ModuleRow {
  std::string path;                // "encoder.0"; "" for the whole
  std::string text;                // "Dense(784, 128)"; the name of the class of a module with children
  int calls = 0;                   // how often it was called
  std::vector<Shape> outputs{};    // shapes of the last call's results
  std::int64_t parameters = 0;     // elements of all parameters
  std::int64_t trained = 0;        // elements of those that are not frozen
  std::int64_t multiply_adds = 0;  // see MultiplyAdds
  std::int64_t state_bytes = 0;    // bytes of parameters and saved buffers
  std::int64_t output_bytes = 0;   // bytes of the results of all calls of modules without children
};

struct ModuleSummary {
  std::vector<ModuleRow> rows;    // the whole first, then its children in the order of registration
  std::string to_string() const;  // a table with the sums below
};

// Calls the module once with `inputs`, in inference and without a tape, and restores its mode; meanwhile other threads see it in
// inference. The call makes arrays whose sizes are kInferred. Throws InvalidArgument for what the module refuses.
ModuleSummary summarize(Module& module, std::span<const NDArray> inputs, Where where = Where::current());
ModuleSummary summarize(Module& module, std::initializer_list<NDArray> inputs,
                        Where where = Where::current());

std::ostream& operator<<(std::ostream& out, const ModuleSummary& summary);  // summary.to_string()

}  // namespace heddle
