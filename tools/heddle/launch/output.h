// What ranks print, line by line.
#pragma once

#include <deque>
#include <string>
#include <string_view>

namespace heddle::tool {

// Cuts what comes into lines and writes each, with a prefix, in one piece to a file descriptor.
class LineWriter {
 public:
  LineWriter(int to, std::string prefix) : to_(to), prefix_(std::move(prefix)) {}
  // Bytes as they come. A line that gets too long to be kept is cut.
  void add(std::string_view bytes);
  void finish();  // what is left is a line too
  const std::deque<std::string>& last_lines() const { return last_; }

 private:
  void emit(std::string_view line, std::string& batch);

  int to_;
  std::string prefix_, rest_;
  std::deque<std::string> last_;
};

// Writes all of it; what cannot be written any more is lost.
void write_all(int to, std::string_view bytes);

}  // namespace heddle::tool
