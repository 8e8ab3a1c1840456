// The signals of a process, on a thread that may do what a signal handler may not.
#pragma once

#include <functional>
#include <thread>

namespace heddle::tool {

// Blocks SIGTERM, SIGINT, SIGQUIT and SIGHUP on the calling thread and those that it starts, whose system calls they shall not
// interrupt; ignores SIGPIPE.
void block_server_signals();

const char* name_of(int signal);  // of one of these

// Handles SIGTERM, SIGINT, SIGQUIT and SIGHUP. Threads that do not block them change nothing: libraries such as OpenBLAS start some
// before main(). One at a time in a process.
class SignalThread {
 public:
  // Calls `handle` for each signal that comes or that was blocked before, one after the other. Throws std::system_error.
  explicit SignalThread(std::function<void(int signal)> handle);
  ~SignalThread();  // blocks until `handle` has returned; signals that come later are ignored
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

 private:
  void run(const std::function<void(int)>& handle) const;

  int end_;  // an eventfd
  std::thread thread_;
};

}  // namespace heddle::tool
