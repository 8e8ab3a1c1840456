// Forwards the output of ranks line by line.
#pragma once

#include <deque>
#include <string>
#include <string_view>

namespace heddle::tool {

// Splits the output of a process into lines and writes each line, after a prefix, to a file descriptor in one
// write.
class LineWriter {
 public:
  LineWriter(int to, std::string prefix) : to_(to), prefix_(std::move(prefix)) {}
  // Adds a piece of output. A line that is too long for the buffer is split.
  void add(std::string_view bytes);
  void finish();  // writes the last line if it has no newline yet
  const std::deque<std::string>& last_lines() const { return last_; }

 private:
  void emit(std::string_view line, std::string& batch);

  int to_;
  std::string prefix_, rest_;
  std::deque<std::string> last_;
};

// Writes all bytes to the descriptor `to`; ignores errors.
void write_all(int to, std::string_view bytes);

}  // namespace heddle::tool
