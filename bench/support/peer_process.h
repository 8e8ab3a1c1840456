// A peer in a process of its own that only works on command.
#pragma once

#include <cstdio>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace heddle::bench {

// A child process that does commands. Each command is a line to its stdin, answered by a line on its stdout.
// Between commands the process sleeps in a read. It exits when its stdin closes.
class PeerProcess {
 public:
  // Starts the process; `environment` is added to this process's environment. Throws std::runtime_error.
  PeerProcess(const std::vector<std::string>& command,
              const std::vector<std::pair<std::string, std::string>>& environment);
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  // Sends a command and returns the answer. Throws std::runtime_error if the process has ended.
  std::string ask(const std::string& line);

 private:
  pid_t pid_ = -1;
  std::FILE* to_ = nullptr;
  std::FILE* from_ = nullptr;
};

}  // namespace heddle::bench
