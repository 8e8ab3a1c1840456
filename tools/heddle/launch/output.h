// Forwards the output of ranks line by line.
#pragma once

#include <deque>
#include <string>
#include <string_view>

namespace heddle::tool {

// Splits output into lines and writes each line with a prefix to a file descriptor, in one write.
class LineWriter {
 public:
  LineWriter(int to, std::string prefix) : to_(to), prefix_(std::move(prefix)) {}
  // Adds output. A line that is too long to buffer is cut.
  void add(std::string_view bytes);
  void finish();  // writes an unfinished last line
  const std::deque<std::string>& last_lines() const { return last_; }

 private:
  void emit(std::string_view line, std::string& batch);

  int to_;
  std::string prefix_, rest_;
  std::deque<std::string> last_;
};

// Writes all bytes; ignores errors.
void write_all(int to, std::string_view bytes);

}  // namespace heddle::tool
