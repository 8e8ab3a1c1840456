#include "files/atomic_file.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

#include <heddle/error.h>

namespace heddle {

AtomicFile::AtomicFile(const std::string& path) : path_(path) {
  static std::atomic<unsigned> count{0};
  temporary_ = path + ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(count++);
  file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file_ < 0) fail("cannot be written");
}

AtomicFile::~AtomicFile() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    ssize_t written = ::write(file_, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot be written");
    at += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::commit() {
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot be renamed to");
  ::close(file_);
  file_ = -1;
}

void AtomicFile::durable_commit() {
  if (::fsync(file_) != 0) fail("cannot be synced");
  commit();
  // The rename itself must reach the disk too; a file system that cannot sync a directory has no better offer.
  std::string parent = std::filesystem::path(path_).parent_path().string();
  int directory = ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return;
  ::fsync(directory);
  ::close(directory);
}

void AtomicFile::fail(const char* what) const {
  throw Error("file '" + path_ + "' " + what + ": " + std::strerror(errno));
}

}  // namespace heddle
