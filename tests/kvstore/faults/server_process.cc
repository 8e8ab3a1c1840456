#include "faults/server_process.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <heddle/comm_keys.h>

namespace heddle::test {
namespace {

Server* serving = nullptr;

void stop_serving(int) {
  if (serving) serving->stop();
}

void say(int to, const std::string& line) {
  if (::write(to, line.data(), line.size()) != static_cast<ssize_t>(line.size())) _exit(1);
}

std::string read_line(int from) {
  std::string line;
  for (char one = 0; ::read(from, &one, 1) == 1 && one != '\n';) line += one;
  return line;
}

}  // namespace

KeyDirectory::KeyDirectory() {
  std::string pattern = (std::filesystem::temp_directory_path() / "heddle-XXXXXX").string();
  if (!::mkdtemp(pattern.data())) throw std::runtime_error("there is no directory to be had");
  path = pattern;
  make_comm_key(path, false);
}

KeyDirectory::~KeyDirectory() { std::filesystem::remove_all(path); }

ServerProcess::ServerProcess(ServerOptions options) {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) throw std::runtime_error("there is no pipe to be had");
  process_ = ::fork();
  if (process_ < 0) throw std::runtime_error("there is no process to be had");
  if (process_ == 0) serve(std::move(options), pipe[1]);
  ::close(pipe[1]);
  report_ = pipe[0];
  address_ = read_line(report_);
  if (address_.empty()) throw std::runtime_error("the server does not begin");
}

ServerProcess::~ServerProcess() {
  if (process_ > 0) {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  ::close(report_);
}

void ServerProcess::serve(ServerOptions options, int report) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    ServerCounts counts;
    options.log = [&counts](const ServerEvent& event) {
      counts.joined += event.name == "worker_joined";
      counts.refused += event.name == "worker_refused";
    };
    Server server(options);
    serving = &server;
    struct sigaction action {};
    action.sa_handler = stop_serving;
    ::sigaction(SIGTERM, &action, nullptr);
    say(report, server.address() + "\n");
    server.run();
    const ServerStats stats = server.stats();
    say(report, std::to_string(counts.joined) + " " + std::to_string(counts.refused) + " " +
                    std::to_string(stats.pushes) + " " + std::to_string(stats.duplicates) + "\n");
    _exit(0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "the server: %s\n", error.what());
    _exit(1);
  }
}

std::uint64_t ServerProcess::resident_bytes() const {
  std::ifstream file("/proc/" + std::to_string(process_) + "/statm");
  std::uint64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::size_t ServerProcess::descriptors() const {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& one :
       std::filesystem::directory_iterator("/proc/" + std::to_string(process_) + "/fd"))
    ++count;
  return count;
}

ServerCounts ServerProcess::stop() {
  ::kill(process_, SIGTERM);
  ServerCounts counts;
  unsigned long long values[4] = {};
  const std::string line = read_line(report_);
  int status = 0;
  ::waitpid(process_, &status, 0);
  process_ = -1;
  if (status != 0 ||
      std::sscanf(line.c_str(), "%llu %llu %llu %llu", &values[0], &values[1], &values[2], &values[3]) != 4)
    throw std::runtime_error("the server has not ended in good order");
  return {values[0], values[1], values[2], values[3]};
}

}  // namespace heddle::test
