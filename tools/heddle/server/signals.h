// Handles the signals of a process on an ordinary thread, which is not restricted as a signal handler is.
#pragma once

#include <functional>
#include <thread>

namespace heddle::tool {

// Blocks SIGTERM, SIGINT, SIGQUIT and SIGHUP on the calling thread and the threads that it starts, so that
// they do not interrupt system calls there; ignores SIGPIPE.
void block_server_signals();

const char* name_of(int signal);  // the name of one of these signals

// Handles SIGTERM, SIGINT, SIGQUIT and SIGHUP, also if other threads do not block them: libraries such as
// OpenBLAS start threads before main(). One object at a time in a process.
class SignalThread {
 public:
  // Calls `handle` for each signal that arrives or is pending, one after the other. Throws std::system_error.
  explicit SignalThread(std::function<void(int signal)> handle);
  ~SignalThread();  // blocks until `handle` has returned; signals that come later are ignored
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

 private:
  void run(const std::function<void(int)>& handle) const;

  int end_;  // an eventfd that ends the thread
  std::thread thread_;
};

}  // namespace heddle::tool
