// How arrays are printed: numpy.set_printoptions.
#pragma once

#include <cstdint>

namespace heddle {

struct PrintOptions {
  int precision = 8;              // digits behind the point of a floating number, at most; 0 or more
  std::int64_t threshold = 1000;  // arrays with more elements are printed as a summary
  std::int64_t edgeitems = 3;     // elements at each end of an axis of a summary; 1 or more
  std::int64_t linewidth = 75;    // characters of a line, at most; 1 or more
  bool suppress = false;  // true: no exponents for small numbers, which are rounded to `precision` digits
  bool operator==(const PrintOptions&) const = default;
};

// Each thread has its own options. set_print_options() returns the previous ones; it throws InvalidArgument
// for a number below the minimum that its comment in PrintOptions names.
PrintOptions print_options();
PrintOptions set_print_options(const PrintOptions& options);

// While a PrintScope lives, arrays are printed with its options on its thread.
class PrintScope {
 public:
  explicit PrintScope(const PrintOptions& options) : before_(set_print_options(options)) {}
  ~PrintScope() { set_print_options(before_); }
  PrintScope(const PrintScope&) = delete;
  PrintScope& operator=(const PrintScope&) = delete;

 private:
  PrintOptions before_;
};

}  // namespace heddle
