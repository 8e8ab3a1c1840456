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
  pid_t id = -1;  // the id of the process and of its process group
  Descriptor out, error;
  // Writes to the process's stdin, if start() was called with with_stdin; otherwise stdin is /dev/null.
  Descriptor in;
};

// Runs a program in its own process group; it is killed when this process ends. Its environment is this
// process's and `more`. It is bound to `cores`, if there are any. If the program cannot be run, the exit
// status is 127, and stderr says why.
Process start(const std::vector<std::string>& program, const Environment& more, const std::vector<int>& cores,
              bool with_stdin);

// A helper process that kills process groups and removes a directory of sockets if this process dies:
// grandchildren do not die with it. Make the guard while this process has no children and no pipes.
class Guard {
 public:
  explicit Guard(const std::string& directory);
  ~Guard();  // ends the helper, since this process ends regularly
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  void watch(pid_t group) { tell(group); }
  void forget(pid_t group) { tell(-group); }

 private:
  void tell(pid_t group);
  Descriptor pipe_;
  pid_t id_;
};

// Name prefix of the files of a job's scheduler in the directory of its sockets.
constexpr const char* kSchedulerState = "scheduler.state";

// Removes the sockets and the scheduler's files in the directory, and then the directory.
void remove_socket_directory(const std::string& directory);

}  // namespace heddle::tool
