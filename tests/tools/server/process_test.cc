#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>

#include "files.h"
#include "server/notify.h"
#include "server/signals.h"

using namespace heddle::tool;
using heddle::test::TemporaryDirectory;

namespace {

// The socket of a service manager; the variable NOTIFY_SOCKET has its path.
class Manager {
 public:
  explicit Manager(const std::string& name) : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    REQUIRE(::bind(socket_, reinterpret_cast<const sockaddr*>(&address), length) == 0);
    ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  ~Manager() {
    ::close(socket_);
    ::unsetenv("NOTIFY_SOCKET");
  }
  std::string told() const {
    char text[256];
    const ssize_t length = ::recv(socket_, text, sizeof text, MSG_DONTWAIT);
    return length < 0 ? "nothing" : std::string(text, static_cast<std::size_t>(length));
  }

 private:
  int socket_;
};

}  // namespace

TEST_CASE("notify: a manager's socket gets the state, by a path or an abstract name") {
  const TemporaryDirectory directory;
  for (const std::string& name : {directory.file("notify"), "@heddle-test-" + std::to_string(::getpid())}) {
    const Manager manager(name);
    CHECK(notify_manager("READY=1\nSTATUS=here"));
    CHECK(manager.told() == "READY=1\nSTATUS=here");
    CHECK(manager.told() == "nothing");
  }
}

TEST_CASE("notify: without a manager nothing happens") {
  ::unsetenv("NOTIFY_SOCKET");
  CHECK_FALSE(notify_manager("READY=1"));
  for (const std::string& name : {std::string(), std::string("/"), std::string("relative"),
                                  "/" + std::string(200, 'x'), std::string("/nowhere/at/all")}) {
    ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
    CHECK_FALSE(notify_manager("READY=1"));
  }
  ::unsetenv("NOTIFY_SOCKET");
}

namespace {

// The work of a child process, which does not use doctest: handles signals by a SignalThread, which writes
// the number of each signal to the pipe. SIGINT ends the process.
[[noreturn]] void tell_signals(int pipe, bool blocked) {
  // Stands for a thread that a library has started, which does not block signals.
  std::thread([] {
    while (true) ::pause();
  }).detach();
  if (blocked) block_server_signals();
  const SignalThread thread([&](int signal) {
    const char byte = static_cast<char>(signal);
    if (::write(pipe, &byte, 1) != 1) ::_exit(8);
    if (signal == SIGINT) ::_exit(7);
  });
  const char ready = 0;
  if (::write(pipe, &ready, 1) != 1) ::_exit(9);
  while (true) ::pause();
}

}  // namespace

TEST_CASE("signals: each is handled on the thread of signals, whatever other threads block") {
  for (const bool blocked : {false, true}) {
    int handled[2];
    REQUIRE(::pipe(handled) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) tell_signals(handled[1], blocked);
    ::close(handled[1]);
    const auto next = [&] {
      char byte = 127;
      return ::read(handled[0], &byte, 1) == 1 ? static_cast<int>(byte) : -1;
    };
    CHECK(next() == 0);
    for (const int signal : {SIGHUP, SIGTERM, SIGTERM, SIGINT}) {
      CHECK(::kill(child, signal) == 0);
      CHECK(next() == signal);
    }
    int status = 0;
    CHECK(::waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 7);
    ::close(handled[0]);
  }
}
