#include "data/input_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace heddle::data_detail {
// Without O_NONBLOCK, to open a pipe would wait for its writer.
OpenFile::OpenFile(const std::string& path) : title_(title_of(path)) {
  if (path.find('\0') != std::string::npos) throw Error("a file's name has a zero byte");
  file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file_ < 0) fail(std::string("cannot be opened: ") + std::strerror(errno));
  struct stat status;
  if (::fstat(file_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(file_);
    fail("is not a regular file");
  }
  size = status.st_size;
}

OpenFile::~OpenFile() { ::close(file_); }

std::string title_of(const std::string& path) { return "file '" + path + "'"; }

void fail_at(const std::string& title, std::int64_t offset, const std::string& problem) {
  throw Error(title + ", byte " + std::to_string(offset) + ": " + problem);
}

std::vector<std::byte> read_bytes(const std::string& path, std::int64_t most) {
  const OpenFile file(path);
  if (file.size > most)
    file.fail("has " + std::to_string(file.size) + " bytes; at most " + std::to_string(most) + " are read");
  std::vector<std::byte> bytes(static_cast<std::size_t>(file.size));
  std::size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t count = ::read(file.handle(), bytes.data() + got, bytes.size() - got);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) file.fail(std::string("cannot be read: ") + std::strerror(errno));
    if (count == 0) file.fail("became shorter while it was read");
    got += static_cast<std::size_t>(count);
  }
  return bytes;
}

MappedBytes map_bytes(const std::string& path) {
  const OpenFile file(path);
  if (file.size == 0) return {};
  const auto size = static_cast<std::size_t>(file.size);
  void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_NORESERVE, file.handle(), 0);
  if (memory == MAP_FAILED) file.fail(std::string("cannot be mapped: ") + std::strerror(errno));
  return {std::shared_ptr<const std::byte>(
              static_cast<const std::byte*>(memory),
              [size](const std::byte* at) { ::munmap(const_cast<std::byte*>(at), size); }),
          file.size};
}

void fail_without(const std::string& what, const char* package) {
  throw Error(what + ": this build of Heddle has no library for it; install " + package +
              " (Debian) and build again");
}

}  // namespace heddle::data_detail
