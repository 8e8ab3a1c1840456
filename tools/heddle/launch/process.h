// Child processes, which never outlive the launcher.
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

#include "plan.h"

namespace heddle::tool {

// Owns a file descriptor and closes it.
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
  pid_t id = -1;  // id of the process, and also of its process group
  Descriptor out, error;
  // Writes to the process's stdin, if start() was called with with_stdin; otherwise stdin is /dev/null.
  Descriptor in;
};

// Starts a program in a process group of its own. The program is killed when this process ends. Its
// environment is that of this process and `more`. It is bound to `cores`, unless that is empty. If it cannot
// be run, the exit status is 127, and stderr says why.
Process start(const std::vector<std::string>& program, const Environment& more, const std::vector<int>& cores,
              bool with_stdin);

// A helper process. If this process dies, the helper kills the process groups of its children, whose own
// children would survive, and removes a directory of sockets. Make the guard before this process has children
// or pipes.
class Guard {
 public:
  explicit Guard(const std::string& directory);
  ~Guard();  // ends the helper process without any killing
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  void watch(pid_t group) { tell(group); }
  void forget(pid_t group) { tell(-group); }

 private:
  void tell(pid_t group);
  Descriptor pipe_;
  pid_t id_;
};

// The names of the files in which a job's scheduler keeps its state start with this text. They are in the
// directory of the job's sockets.
constexpr const char* kSchedulerState = "scheduler.state";

// Removes the sockets and the scheduler's files in the directory, and then the directory.
void remove_socket_directory(const std::string& directory);

}  // namespace heddle::tool
