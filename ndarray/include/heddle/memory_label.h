// Names under which memory_report() counts arrays, instead of lines of the program.
#pragma once

#include <string>

namespace heddle {

// While it lives, arrays that its thread makes are counted under the label, if track_memory() is on. Labels are nested:
// the innermost one counts. They end in the reverse order.
class MemoryLabel {
 public:
  explicit MemoryLabel(std::string label);
  ~MemoryLabel();
  MemoryLabel(const MemoryLabel&) = delete;
  MemoryLabel& operator=(const MemoryLabel&) = delete;
  static const std::string* current() noexcept;  // the calling thread's label; null: none

 private:
  const std::string label_;
  const MemoryLabel* const outer_;
};

// Whether track_memory() is on.
bool tracks_memory() noexcept;

}  // namespace heddle
