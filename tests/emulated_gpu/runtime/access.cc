#include "runtime/access.h"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

#include "executor/executor.h"
#include "executor/sanitizers.h"
#include "runtime/memory.h"

namespace heddle::emulated_gpu {
namespace {

struct Range {
  char* base = nullptr;
  std::size_t bytes = 0;
};

SpinLock lock;  // guards the three below
int open = 0;   // how many DeviceAccess live
bool protecting = true;
Range ranges[kMostDevices];

constinit thread_local int depth = 0;
SpinLock handler_lock;  // guards old_actions
struct sigaction old_actions[NSIG];

void set_access(const Range& range, int access) {
  if (range.bytes > 0 && mprotect(range.base, range.bytes, access) != 0) std::abort();
}

void print(const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = write(STDERR_FILENO, text.data() + done, text.size() - done);
    if (written <= 0) return;
    done += static_cast<std::size_t>(written);
  }
}

// In a kernel without sanitizers: the kernel ends, and its device has failed. Otherwise the fault is repeated for the
// handler before, a sanitizer's or the system's.
void on_fault(int signal, siginfo_t* info, void*) {
  const bool misaligned = signal == SIGILL;  // kernels are compiled with such checks
  const std::string what = misaligned ? "an access to an address that is no multiple of its size"
                           : signal == SIGFPE
                               ? "a division by zero"
                               : "an access to " + describe_address(static_cast<char*>(info->si_addr));
  const bool sanitizer = with_asan() || with_tsan();
  if (in_kernel()) {
    if (!sanitizer) fail_in_kernel(misaligned ? cudaErrorMisalignedAddress : cudaErrorIllegalAddress, what);
    print("emulated GPU: a kernel faults: " + what + "\n");
  } else if (is_device_memory(info->si_addr)) {
    print(std::string("emulated GPU: the host uses memory of a device: ") + what + "\n");
  }
  sigaction(signal, &old_actions[signal], nullptr);
}

}  // namespace

void SpinLock::lock() noexcept {
  while (!try_lock()) std::this_thread::yield();
}

DeviceAccess::DeviceAccess() noexcept {
  if (depth++ > 0) return;
  const std::lock_guard guard(lock);
  if (open++ > 0 || !protecting) return;
  for (const Range& range : ranges) set_access(range, PROT_READ | PROT_WRITE);
}

DeviceAccess::~DeviceAccess() {
  if (--depth > 0) return;
  const std::lock_guard guard(lock);
  if (--open > 0 || !protecting) return;
  for (const Range& range : ranges) set_access(range, PROT_NONE);
}

bool DeviceAccess::here() noexcept { return depth > 0; }

void protect_devices(bool protect) noexcept {
  const std::lock_guard guard(lock);
  protecting = protect;
  for (const Range& range : ranges) {
    set_access(range, protect && open == 0 ? PROT_NONE : PROT_READ | PROT_WRITE);
  }
}

void set_mapped(int device, char* base, std::size_t bytes) noexcept {
  const std::lock_guard guard(lock);
  ranges[device] = {base, bytes};
  if (open > 0 || !protecting) set_access(ranges[device], PROT_READ | PROT_WRITE);
}

void catch_faults() {
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  // A fault in a kernel does not return from the handler, so the signal must not stay blocked.
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  const std::lock_guard guard(handler_lock);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    struct sigaction before = {};
    sigaction(signal, nullptr, &before);
    if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction == on_fault) continue;
    old_actions[signal] = before;
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace heddle::emulated_gpu
