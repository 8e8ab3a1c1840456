// A peer that runs in a process of its own and works only when told to.
#pragma once

#include <cstdio>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace heddle::bench {

// Commands go to its stdin, a line each; each is answered by a line on its stdout. Between two commands it
// sleeps in a read. Ends with its stdin.
class PeerProcess {
 public:
  // `environment` is added to this process's. Throws std::runtime_error.
  PeerProcess(const std::vector<std::string>& command,
              const std::vector<std::pair<std::string, std::string>>& environment);
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  // Throws std::runtime_error if the process has ended.
  std::string ask(const std::string& line);

 private:
  pid_t pid_ = -1;
  std::FILE* to_ = nullptr;
  std::FILE* from_ = nullptr;
};

}  // namespace heddle::bench
