// Runs a shell command and reports how it ended.
#pragma once

#include <array>
#include <cstdio>
#include <string>
#include <sys/wait.h>

#include <doctest/doctest.h>

namespace heddle::test {

struct CommandResult {
  std::string output;
  int code = -1;   // exit code of the command; -1: the shell was killed by a signal
  int signal = 0;  // the signal that killed the command; 0: none
  bool operator==(const CommandResult&) const = default;
};

// Runs the command and waits for its end.
inline CommandResult run_command(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe);
  CommandResult result;
  std::array<char, 256> part;
  while (std::fgets(part.data(), static_cast<int>(part.size()), pipe)) result.output += part.data();
  const int status = pclose(pipe);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
  if (result.code > 128) result.signal = result.code - 128;  // a shell returns 128 + the signal's number
  return result;
}

}  // namespace heddle::test
