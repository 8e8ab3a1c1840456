// Handles the signals of a process on an ordinary thread, which is not restricted as a signal handler is.
#pragma once

#include <functional>
#include <thread>

namespace heddle::tool {

// Blocks SIGTERM, SIGINT, SIGQUIT and SIGHUP on the calling thread and the threads that it starts, so that
// they do not interrupt system calls there; ignores SIGPIPE.
void block_server_signals();

const char* name_of(int signal);  // the name of a signal, such as "SIGTERM"

// A thread that handles SIGTERM, SIGINT, SIGQUIT and SIGHUP. This also works for signals that arrive at
// threads that do not block them: libraries such as OpenBLAS start threads before main(). A process may have
// one such object at a time.
class SignalThread {
 public:
  // Calls `handle` for each signal that arrives or is already pending, one after the other. Throws
  // std::system_error.
  explicit SignalThread(std::function<void(int signal)> handle);
  ~SignalThread();  // blocks until a running `handle` has returned; later signals are ignored
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

 private:
  void run(const std::function<void(int)>& handle) const;

  int end_;  // the eventfd by which the destructor ends the thread
  std::thread thread_;
};

}  // namespace heddle::tool
