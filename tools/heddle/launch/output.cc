#include "output.h"

#include <cerrno>
#include <poll.h>
#include <unistd.h>

namespace heddle::tool {
namespace {

constexpr std::size_t kLongestLine = 1 << 16, kLinesKept = 10;

}  // namespace

void LineWriter::add(std::string_view bytes) {
  std::string batch;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::size_t room = kLongestLine - rest_.size();
    if (end == std::string_view::npos || end > room) {
      const std::string_view taken = bytes.substr(0, room);
      rest_ += taken;
      bytes.remove_prefix(taken.size());
      if (rest_.size() == kLongestLine) emit("", batch);
      continue;
    }
    emit(bytes.substr(0, end), batch);
    bytes.remove_prefix(end + 1);
  }
  write_all(to_, batch);
}

void LineWriter::finish() {
  if (rest_.empty()) return;
  std::string batch;
  emit("", batch);
  write_all(to_, batch);
}

void LineWriter::emit(std::string_view line, std::string& batch) {
  rest_ += line;
  batch += prefix_ + rest_ + '\n';
  if (last_.size() == kLinesKept) last_.pop_front();
  last_.push_back(std::move(rest_));
  rest_.clear();
}

void write_all(int to, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(to, bytes.data(), bytes.size());
    if (count >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {
      pollfd ready{to, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

}  // namespace heddle::tool
