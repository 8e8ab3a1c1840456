#include "fit/interrupt.h"

#include <atomic>
#include <csignal>
#include <mutex>
#include <unistd.h>

namespace heddle::fit_detail {
namespace {

// Numbers of signals: those that came, before the newest scope, and that a scope has told of.
std::atomic<int> noted{0}, before_newest{0}, seen{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler uses it");

std::mutex scopes_lock;  // guards the variables below; nothing else is locked while it is held
int scopes = 0;
bool is_installed = false;
struct sigaction former {};

// The second signal since the newest scope began is that of a program without a handler.
void note_interrupt(int signal) {
  if (noted.fetch_add(1) == before_newest.load()) return;
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  ::sigaction(signal, &plain, nullptr);
  ::raise(signal);
}

}  // namespace

InterruptScope::InterruptScope() {
  const std::lock_guard guard(scopes_lock);
  before_newest = before_ = noted.load();
  if (scopes++ > 0) return;
  seen = noted.load();
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
  if (noted > seen) ::raise(SIGINT);
}

bool InterruptScope::interrupted() const {
  const int now = noted.load();
  if (now == before_) return false;
  seen = now;
  return true;
}

}  // namespace heddle::fit_detail
