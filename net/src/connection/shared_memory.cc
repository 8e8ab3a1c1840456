#include "connection/shared_memory.h"

#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <heddle/comm_error.h>

namespace heddle::net_detail {
namespace {

[[noreturn]] void fail(const std::string& what) { throw CommError(what + ": " + last_error()); }

}  // namespace

Socket make_memory(std::size_t bytes) {
  // Without this check SIGXFSZ would kill a process whose ftruncate exceeds the limit.
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) {
    throw CommError("shared memory of " + std::to_string(bytes) +
                    " bytes is more than RLIMIT_FSIZE allows, " + std::to_string(limit.rlim_cur) +
                    " (ulimit -f)");
  }
  Socket file(memfd_create("heddle", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) fail("memfd_create");
  if (ftruncate(file.fd(), static_cast<off_t>(bytes)) != 0) fail("ftruncate of shared memory");
  // The seals keep any process from truncating the memory, which would raise SIGBUS in the others.
  if (fcntl(file.fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    fail("sealing shared memory");
  return file;
}

std::shared_ptr<std::byte> map_memory(const Socket& file, std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.fd(), 0);
  if (memory == MAP_FAILED) fail("mapping shared memory");
  madvise(memory, bytes, MADV_DONTDUMP);
  return {static_cast<std::byte*>(memory), [bytes](std::byte* pointer) { munmap(pointer, bytes); }};
}

std::shared_ptr<std::byte> map_memory_of(int pid, int fd, std::size_t bytes) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
  const Socket file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file) fail("opening " + path + ", the memory of another rank");
  const off_t length = lseek(file.fd(), 0, SEEK_END);
  if (length < 0 || static_cast<std::size_t>(length) != bytes) {
    throw CommError(path + " is not the memory of a rank of this version of Heddle");
  }
  return map_memory(file, bytes);
}

}  // namespace heddle::net_detail
