#include "files/mapped_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/path.h"

namespace heddle::ndarray_detail {

namespace {

[[noreturn]] void fail(const std::string& path, const char* what, int error) {
  throw Error("file '" + path + "' " + what + (error ? std::string(": ") + std::strerror(error) : ""));
}

}  // namespace

MappedFile map_file(const std::string& path) {
  check_path(path);
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail(path, "cannot be opened", errno);
  struct stat status;
  const bool regular = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  const auto bytes = regular ? static_cast<std::size_t>(status.st_size) : 0;
  void* const memory =
      bytes ? ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file, 0) : nullptr;
  const int error = errno;
  ::close(file);
  if (!regular) fail(path, "is not a regular file", 0);
  if (memory == MAP_FAILED) fail(path, "cannot be mapped", error);
  return {std::shared_ptr<std::byte>(static_cast<std::byte*>(memory),
                                     [bytes](std::byte* at) {
                                       if (at) ::munmap(at, bytes);
                                     }),
          bytes};
}

}  // namespace heddle::ndarray_detail
