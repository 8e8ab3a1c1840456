#include "signals.h"

#include <cerrno>
#include <csignal>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace heddle::tool {

namespace {

int opened(int descriptor) {
  if (descriptor < 0) throw std::system_error(errno, std::generic_category(), "cannot wait for signals");
  return descriptor;
}

int block_signals() {
  sigset_t all;
  ::sigemptyset(&all);
  for (const int one : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&all, one);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  return opened(::signalfd(-1, &all, SFD_CLOEXEC));
}

}  // namespace

BlockedSignals::BlockedSignals() : descriptor_(block_signals()) {}
BlockedSignals::~BlockedSignals() { ::close(descriptor_); }

SignalThread::SignalThread(const BlockedSignals& signals, std::function<void(int)> handle)
    : end_(opened(::eventfd(0, EFD_CLOEXEC))),
      thread_([this, descriptor = signals.descriptor(), handle = std::move(handle)] {
        run(descriptor, handle);
      }) {}

SignalThread::~SignalThread() {
  ::eventfd_write(end_, 1);
  thread_.join();
  ::close(end_);
}

void SignalThread::run(int signals, const std::function<void(int)>& handle) const {
  pollfd wanted[2] = {{end_, POLLIN, 0}, {signals, POLLIN, 0}};
  while (true) {
    if (::poll(wanted, 2, -1) < 0) continue;  // EINTR
    if (wanted[0].revents != 0) return;
    signalfd_siginfo info{};
    if (::read(signals, &info, sizeof info) == sizeof info) handle(static_cast<int>(info.ssi_signo));
  }
}

}  // namespace heddle::tool
