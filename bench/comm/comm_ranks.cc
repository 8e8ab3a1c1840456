#include "comm/comm_ranks.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sstream>
#include <stdexcept>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

extern char** environ;

namespace heddle::bench {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kComing = 30s, kLeaving = 10s;
constexpr int kSilence = 120'000;  // milliseconds to wait for a rank's answer before it counts as failed

// Closes a descriptor at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return number_; }

 private:
  int number_;
};

int listen_at(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) throw std::runtime_error("too long a path: " + path);
  std::strcpy(address.sun_path, path.c_str());
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0 || bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener, 128) != 0) {
    throw std::runtime_error("cannot listen at " + path + ": " + std::strerror(errno));
  }
  return listener;
}

// Starts a process without this process's stdin. The child's stdout goes to stderr, so that stdout has only
// the table.
pid_t spawn(const std::vector<std::string>& command) {
  std::vector<std::string> words = command;
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t process = 0;
  const int error = posix_spawnp(&process, pointers[0], &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot start " + command.front() + ": " + std::strerror(error));
  return process;
}

bool readable(int descriptor, int milliseconds) {
  pollfd entry{descriptor, POLLIN, 0};
  return poll(&entry, 1, milliseconds) > 0;
}

}  // namespace

Ranks::Ranks(const std::string& name, int size, const RankCommands& commands) : name_(name) {
  const Descriptor listener(listen_at(commands.control));
  try {
    for (const auto& words : commands.words) processes_.push_back(spawn(words));
    accept_all(listener, size);
  } catch (...) {
    failed_ = true;
    stop();
    throw;
  }
}

Ranks::~Ranks() { stop(); }

void Ranks::accept_all(int listener, int size) {
  connections_.assign(static_cast<std::size_t>(size), -1);
  const auto deadline = Clock::now() + kComing;
  for (int come = 0; come < size;) {
    for (const pid_t process : processes_) {
      siginfo_t info{};
      waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT);
      if (info.si_pid == process) fail("a process ended before all ranks had come");
    }
    if (Clock::now() > deadline) fail("only " + std::to_string(come) + " ranks have come");
    if (!readable(listener, 100)) continue;
    const int connection = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    const auto rank = std::stoul(hear(connection, kSilence));
    connections_.at(rank) = connection;
    ++come;
  }
}

CommSample Ranks::run(const std::string& collective, const std::string& variant, std::size_t count,
                      long calls) {
  std::ostringstream command;
  command << collective << ' ' << variant << ' ' << count << ' ' << calls << '\n';
  for (const int connection : connections_) {
    if (send(connection, command.str().data(), command.str().size(), MSG_NOSIGNAL) < 0)
      fail("a rank has ended");
  }
  CommSample sample;
  std::string error;
  for (const int connection : connections_) {
    const std::string answer = hear(connection, kSilence);
    std::istringstream words(answer);
    double seconds = 0, core = 0;
    long wrong = 0;
    if (!(words >> seconds >> wrong >> core)) error = answer;
    sample.seconds = std::max(sample.seconds, seconds);
    sample.core = std::max(sample.core, core);
    sample.wrong += wrong;
  }
  if (!error.empty()) throw std::runtime_error(name_ + ": " + error);
  return sample;
}

// Reads one line. A rank sends a short line and only as the answer to a command, so what is read never
// belongs to a second line.
std::string Ranks::hear(int connection, int milliseconds) {
  std::string line;
  while (line.empty() || line.back() != '\n') {
    std::array<char, 512> piece;
    if (!readable(connection, milliseconds)) fail("a rank is silent");
    const ssize_t length = read(connection, piece.data(), piece.size());
    if (length <= 0) fail("a rank has ended");
    line.append(piece.data(), static_cast<std::size_t>(length));
  }
  line.pop_back();
  return line;
}

void Ranks::fail(const std::string& what) {
  failed_ = true;
  throw std::runtime_error(name_ + ": " + what);
}

// Ends the ranks. A rank exits when its connection closes; one whose library has failed may hang and is
// killed.
void Ranks::stop() {
  for (const int connection : connections_) {
    if (connection >= 0) close(connection);
  }
  connections_.clear();
  auto deadline = Clock::now() + (failed_ ? 0s : kLeaving);
  for (const int signal : {SIGTERM, SIGKILL}) {
    while (Clock::now() < deadline && !processes_.empty()) {
      std::erase_if(processes_, [](pid_t process) { return waitpid(process, nullptr, WNOHANG) == process; });
      std::this_thread::sleep_for(5ms);
    }
    for (const pid_t process : processes_) kill(process, signal);
    deadline = Clock::now() + 3s;  // mpirun needs time to end its ranks
  }
  for (const pid_t process : processes_) waitpid(process, nullptr, 0);
  processes_.clear();
}

}  // namespace heddle::bench
