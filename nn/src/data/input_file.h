// Files that examples come from, and the messages of their errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <heddle/error.h>

namespace heddle::data_detail {

// "file 'x.png'", the title of errors.
std::string title_of(const std::string& path);
[[noreturn]] void fail_at(const std::string& title, std::int64_t offset, const std::string& problem);

// A regular file, open for reading. Throws Error naming the file.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  [[noreturn]] void fail(const std::string& problem) const { throw Error(title_ + " " + problem); }
  int handle() const { return file_; }
  std::int64_t size = 0;

 private:
  std::string title_;
  int file_ = -1;
};

// The bytes of a regular file, `most` at most. Throws Error naming the file.
std::vector<std::byte> read_bytes(const std::string& path, std::int64_t most = std::int64_t{1} << 32);

struct MappedBytes {
  std::shared_ptr<const std::byte> memory;
  std::int64_t size = 0;
};
// The file's own pages, read-only. Throws Error naming the file.
MappedBytes map_bytes(const std::string& path);

// What an Error says that a format's library is missing from this build.
[[noreturn]] void fail_without(const std::string& what, const char* package);

}  // namespace heddle::data_detail
