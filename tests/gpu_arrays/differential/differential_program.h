// Random programs of elementwise operators. Their results are written as hashes, so that two devices can be compared that no
// process sees both of.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include <heddle/device.h>

namespace heddle::test {

// One step of a program: an operator and its result. One line of a file.
struct StepLine {
  std::uint64_t seed = 0;
  int step = 0;
  std::string op, dtype, shape;
  // "input", "bits": an operation of IEEE or on integers, "libm": its last bits are the library's, "refused": the call
  // threw, "error": the op refused its data, "broken": it failed otherwise. The last three have no dtype, shape and hash.
  std::string kind;
  std::uint64_t hash = 0;  // of the elements; all NaN are alike, since IEEE leaves their bits open

  bool operator==(const StepLine&) const = default;
};

// Runs the program of a seed on a device. The same seed gives the same program and inputs everywhere. Prints the errors of steps that
// are "broken". Throws Error if there are no inputs, as on a GPU that is lost.
std::vector<StepLine> run_program(std::uint64_t seed, Device device);

void write_line(std::ostream& out, const StepLine& line);
std::optional<StepLine> parse_line(const std::string& text);  // nothing for other text

}  // namespace heddle::test
