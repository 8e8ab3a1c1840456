#include "signals.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace heddle::tool {
namespace {

constexpr int kSignals[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP};

std::atomic<int> pipe_end = -1;  // the write end of the pipe from the signal handler to the signal thread

void pass_on(int signal) {
  const int kept = errno;
  const char number = static_cast<char>(signal);
  if (::write(pipe_end.load(), &number, 1) != 1) {  // the pipe is full of signals: one more can be dropped
  }
  errno = kept;
}

[[noreturn]] void fail() {
  throw std::system_error(errno, std::generic_category(), "cannot wait for signals");
}

// The read end of the pipe. The pipe is made once and never closed, since a signal handler may write to it at
// any time.
int read_end() {
  static const std::array<int, 2> ends = [] {
    std::array<int, 2> made{};
    if (::pipe2(made.data(), O_CLOEXEC | O_NONBLOCK) != 0) fail();
    return made;
  }();
  pipe_end = ends[1];
  return ends[0];
}

int made_eventfd() {
  const int descriptor = ::eventfd(0, EFD_CLOEXEC);
  if (descriptor < 0) fail();
  return descriptor;
}

sigset_t handled() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int one : kSignals) ::sigaddset(&set, one);
  return set;
}

}  // namespace

void block_server_signals() {
  const sigset_t set = handled();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

const char* name_of(int signal) {
  switch (signal) {
    case SIGTERM:
      return "SIGTERM";
    case SIGINT:
      return "SIGINT";
    case SIGQUIT:
      return "SIGQUIT";
    default:
      return "SIGHUP";
  }
}

SignalThread::SignalThread(std::function<void(int)> handle) : end_(made_eventfd()) {
  read_end();
  struct sigaction action {};
  action.sa_handler = &pass_on;
  action.sa_flags = SA_RESTART;
  action.sa_mask = handled();
  for (const int one : kSignals) ::sigaction(one, &action, nullptr);
  thread_ = std::thread([this, handle = std::move(handle)] { run(handle); });
}

SignalThread::~SignalThread() {
  for (const int one : kSignals) ::signal(one, SIG_IGN);
  ::eventfd_write(end_, 1);
  thread_.join();
  ::close(end_);
}

void SignalThread::run(const std::function<void(int)>& handle) const {
  const sigset_t set = handled();
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  const int signals = read_end();
  pollfd wanted[2] = {{end_, POLLIN, 0}, {signals, POLLIN, 0}};
  while (true) {
    if (::poll(wanted, 2, -1) < 0) continue;  // a signal has interrupted poll
    if (wanted[0].revents != 0) return;
    char number = 0;
    if (::read(signals, &number, 1) == 1) handle(number);
  }
}

}  // namespace heddle::tool
