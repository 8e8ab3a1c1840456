#include "support/peer_process.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <spawn.h>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace heddle::bench {
namespace {

std::runtime_error failure(const std::string& what, int error) {
  return std::runtime_error(what + ": " + std::strerror(error));
}

// The current environment with `added` on top, as KEY=VALUE strings.
std::vector<std::string> merged_environment(const std::vector<std::pair<std::string, std::string>>& added) {
  std::map<std::string, std::string> all;
  for (char** entry = environ; *entry; ++entry) {
    const std::string word = *entry;
    const auto equals = word.find('=');
    if (equals != std::string::npos) all[word.substr(0, equals)] = word.substr(equals + 1);
  }
  for (const auto& [key, value] : added) all[key] = value;
  std::vector<std::string> words;
  for (const auto& [key, value] : all) words.push_back(key + "=" + value);
  return words;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

std::array<int, 2> make_pipe() {
  std::array<int, 2> ends;
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw failure("pipe", errno);
  return ends;
}

}  // namespace

PeerProcess::PeerProcess(const std::vector<std::string>& command,
                         const std::vector<std::pair<std::string, std::string>>& environment) {
  std::signal(SIGPIPE, SIG_IGN);  // so that ask() reports a peer that has ended
  const auto input = make_pipe(), output = make_pipe();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  std::vector<std::string> words = command, variables = merged_environment(environment);
  const int error = posix_spawnp(&pid_, words.front().c_str(), &actions, nullptr, pointers(words).data(),
                                 pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  close(input[0]);
  close(output[1]);
  to_ = fdopen(input[1], "w");
  from_ = fdopen(output[0], "r");
  if (error == 0) return;
  std::fclose(to_);
  std::fclose(from_);
  throw failure("cannot start " + command.front(), error);
}

PeerProcess::~PeerProcess() {
  std::fclose(to_);
  std::fclose(from_);
  waitpid(pid_, nullptr, 0);
}

std::string PeerProcess::ask(const std::string& line) {
  std::array<char, 4096> answer;
  if (std::fprintf(to_, "%s\n", line.c_str()) < 0 || std::fflush(to_) != 0 ||
      !std::fgets(answer.data(), static_cast<int>(answer.size()), from_)) {
    throw std::runtime_error("the peer process has ended");
  }
  return answer.data();
}

}  // namespace heddle::bench
