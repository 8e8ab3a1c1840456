// Writing a file so that a crash leaves the old one or the new one, never a part.
#pragma once

#include <cstddef>
#include <string>

namespace heddle {

// Writes to a temporary file in the same directory; commit() syncs it and renames it to `path`. Without commit()
// nothing is left behind. Throws Error with the path and the system's words.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void commit();

 private:
  [[noreturn]] void fail(const char* what) const;
  std::string path_;
  std::string temporary_;
  int file_;
};

}  // namespace heddle
