// The signals of a process, on a thread that may do what a signal handler may not.
#pragma once

#include <csignal>
#include <functional>
#include <thread>

namespace heddle::tool {

// Made before the process has other threads: a signal that one of them does not block would end the process.
class BlockedSignals {
 public:
  // Blocks SIGTERM, SIGINT and SIGHUP on the calling thread and those that it starts; ignores SIGPIPE. Throws
  // std::system_error.
  BlockedSignals();
  ~BlockedSignals();  // what is blocked stays so
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  int descriptor() const { return descriptor_; }  // a signalfd

 private:
  int descriptor_;
};

class SignalThread {
 public:
  // Calls `handle` for each signal that came or comes, one at a time, until the destructor.
  SignalThread(const BlockedSignals& signals, std::function<void(int signal)> handle);
  ~SignalThread();  // blocks until `handle` has returned
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

 private:
  void run(int signals, const std::function<void(int)>& handle) const;

  int end_;  // an eventfd
  std::thread thread_;
};

}  // namespace heddle::tool
