#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor/doctor_checks.h"

namespace heddle::comm_detail {
namespace {

using Level = Finding::Level;

std::string mebibytes(unsigned long long bytes) { return std::to_string(bytes >> 20) + " MiB"; }

// A child process that waits, and is killed by the destructor.
class Child {
 public:
  Child() : id_(::fork()) {
    if (id_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (true) ::pause();
  }
  ~Child() {
    if (id_ <= 0) return;
    ::kill(id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  pid_t id() const { return id_; }

 private:
  pid_t id_;
};

void examine_segments(Findings& findings) {
  constexpr std::size_t kBytes = 4096;
  const int file = ::memfd_create("heddle-doctor", MFD_CLOEXEC);
  void* mapped = MAP_FAILED;
  if (file >= 0 && ::ftruncate(file, kBytes) == 0) {
    mapped = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  if (mapped != MAP_FAILED) {
    findings.push_back({Level::ok, "shared memory", "memfd_create works: ranks on this host use shm"});
    ::munmap(mapped, kBytes);
  } else {
    findings.push_back(
        {Level::problem, "shared memory",
         std::string("memfd_create: ") + std::strerror(errno) + ": ranks on this host can use tcp only"});
  }
  if (file >= 0) ::close(file);
}

void examine_deaths(Findings& findings) {
  const Child child;
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, child.id(), 0));
  findings.push_back(
      pidfd >= 0 ? Finding{Level::ok, "death of peers", "pidfd_open works: seen at once"}
                 : Finding{Level::note, "death of peers",
                           std::string("pidfd_open: ") + std::strerror(errno) + ": seen by heartbeats only"});
  if (pidfd >= 0) ::close(pidfd);
}

void examine_limits(Findings& findings) {
  // The size of /dev/shm that containers get by default. It is too small for some libraries.
  constexpr unsigned long long kUsual = 64ull << 20;
  struct statvfs disk {};
  if (::statvfs("/dev/shm", &disk) == 0) {
    const unsigned long long size = static_cast<unsigned long long>(disk.f_blocks) * disk.f_frsize;
    findings.push_back({size > kUsual ? Level::ok : Level::note, "/dev/shm",
                        mebibytes(size) + "; Heddle does not need it, other libraries do"});
  } else {
    findings.push_back(
        {Level::note, "/dev/shm", "is not there; Heddle does not need it, other libraries do"});
  }
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  findings.push_back(
      {Level::ok, "memlock", limit.rlim_cur == RLIM_INFINITY ? "unlimited" : mebibytes(limit.rlim_cur)});
  ::getrlimit(RLIMIT_NOFILE, &limit);
  constexpr rlim_t kFew = 512;
  findings.push_back(
      {limit.rlim_cur < kFew ? Level::note : Level::ok, "open files",
       limit.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(limit.rlim_cur) + " at most"});
}

}  // namespace

void examine_memory(Findings& findings) {
  examine_segments(findings);
  examine_deaths(findings);
  examine_limits(findings);
}

}  // namespace heddle::comm_detail
