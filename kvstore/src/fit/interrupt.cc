#include "fit/interrupt.h"

#include <atomic>
#include <csignal>
#include <mutex>
#include <unistd.h>

namespace heddle::fit_detail {
namespace {

std::atomic<bool> is_interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler uses it");

std::mutex scopes_lock;  // guards the variables below; nothing else is locked while it is held
int scopes = 0;
bool is_installed = false;
struct sigaction former {};

// The second signal is that of a program without a handler.
void note_interrupt(int signal) {
  if (!is_interrupted.exchange(true)) return;
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  ::sigaction(signal, &plain, nullptr);
  ::raise(signal);
}

}  // namespace

InterruptScope::InterruptScope() {
  const std::lock_guard guard(scopes_lock);
  if (scopes++ > 0) return;
  is_interrupted = false;
  if (::sigaction(SIGINT, nullptr, &former) != 0 || (former.sa_flags & SA_SIGINFO) != 0 ||
      former.sa_handler != SIG_DFL)
    return;
  struct sigaction noting {};
  noting.sa_handler = note_interrupt;
  noting.sa_flags = SA_RESTART;
  is_installed = ::sigaction(SIGINT, &noting, nullptr) == 0;
}

InterruptScope::~InterruptScope() {
  const std::lock_guard guard(scopes_lock);
  if (--scopes > 0 || !is_installed) return;
  ::sigaction(SIGINT, &former, nullptr);
  is_installed = false;
}

bool InterruptScope::interrupted() const { return is_interrupted.load(std::memory_order_relaxed); }

}  // namespace heddle::fit_detail
