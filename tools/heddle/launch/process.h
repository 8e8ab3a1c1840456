// Processes that never outlive the launcher.
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

#include "plan.h"

namespace heddle::tool {

// A file descriptor with an owner.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : number_(other.number_) { other.number_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  void reset();

 private:
  int number_;
};

struct Pipe {
  Descriptor read, write;
};
Pipe make_pipe();

struct Process {
  pid_t id = -1;  // and of its process group
  Descriptor out, error;
  Descriptor
      in;  // only if it was asked for: the other end is the process's stdin, otherwise that is /dev/null
};

// Runs a program, in a process group of its own, and with this process's end ends it. Environment: this process's, and
// `more`. It stays on these cores, if there are any. What cannot be run ends with 127, saying so on its stderr.
Process start(const std::vector<std::string>& program, const Environment& more, const std::vector<int>& cores,
              bool with_stdin);

// Ends groups, and removes a directory of sockets, if this process ends without saying goodbye: grandchildren do not die
// with it by themselves. To be made while this process has no children and no pipes.
class Guard {
 public:
  explicit Guard(const std::string& directory);
  ~Guard();  // the goodbye
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  void watch(pid_t group) { tell(group); }
  void forget(pid_t group) { tell(-group); }

 private:
  void tell(pid_t group);
  Descriptor pipe_;
  pid_t id_;
};

// How the files of a job's scheduler begin, in the directory of its sockets.
constexpr const char* kSchedulerState = "scheduler.state";

// Removes the sockets in it, the scheduler's files and then the directory.
void remove_socket_directory(const std::string& directory);

}  // namespace heddle::tool
