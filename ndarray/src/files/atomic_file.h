// Writes a file so that a crash leaves the old one or the new one, never a partial one.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace heddle {

// Writes to a temporary file in the same directory. commit() renames it to `path`; durable_commit() syncs the
// file before, so that it survives a power failure. If neither is called, the temporary file is removed. The
// next AtomicFile of that path on that host removes temporary files of killed processes. Throws Error with
// the path and the system's message. `mode` is the mode of a new file, less the process's umask; a replaced
// file passes on its permissions and group. A symbolic link stays, and what it points to is replaced. A device
// or a pipe is written to directly.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path, unsigned mode = 0666);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void commit();
  void durable_commit();

 private:
  [[noreturn]] void fail(const char* what) const;
  std::string path_;
  std::string target_;     // what path_ is, or what it points to as a symbolic link
  std::string temporary_;  // empty: the target is written to directly
  int file_;
};

// Removes what killed processes of this host and user have left in a folder: temporary files of AtomicFiles to names for
// which is_of(name) is true. Those that a process has open stay, and so do all other files. Errors are ignored.
void remove_abandoned(const std::string& folder, const std::function<bool(const std::string& name)>& is_of);

// Whether path is a device, a pipe or a socket, which a rename would replace.
bool is_special(const std::string& path);

// What path points to over symbolic links, which may not exist yet; path itself if it is none.
std::string behind_links(const std::string& path);

}  // namespace heddle
