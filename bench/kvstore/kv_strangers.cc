// The cost of unauthenticated connections for a worker: the time of its push and pull beside a process that
// connects and sends garbage as fast as it can, and beside one that only computes.
//
//     kv_strangers [SECONDS]      measures for this long; default 20
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <memory>
#include <poll.h>
#include <random>
#include <stdexcept>
#include <string>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <heddle/comm_keys.h>
#include <heddle/server.h>

#include "client/client.h"

namespace {

using namespace heddle;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kBytes = 1 << 10, kOpen = 256;
// Seconds of a phase: the garbage-sending and the computing process run in turns.
constexpr double kPhase = 1.0;

struct KeyDirectory {
  std::string path = (std::filesystem::temp_directory_path() / "heddle-XXXXXX").string();
  KeyDirectory() {
    if (!::mkdtemp(path.data())) throw std::runtime_error("there is no directory to be had");
    make_comm_key(path, false);
  }
  ~KeyDirectory() { std::filesystem::remove_all(path); }
};

// A child process that runs `work` until this object is destroyed.
class Child {
 public:
  template <class Work> explicit Child(Work&& work) : process_(::fork()) {
    if (process_ < 0) throw std::runtime_error("there is no process to be had");
    if (process_ > 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    work();
    _exit(0);
  }
  ~Child() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  void set_running(bool running) const { ::kill(process_, running ? SIGCONT : SIGSTOP); }

 private:
  const pid_t process_;
};

// Starts one connection. Its socket will close with a reset: so many sockets in TIME_WAIT would use up the
// ports.
int connect_once(std::uint16_t port, std::uint32_t number) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const linger reset{1, 0};
  setsockopt(socket, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  sockaddr_in from{}, to{};
  from.sin_family = to.sin_family = AF_INET;
  from.sin_addr.s_addr = htonl(0x7f000002u + number % 200);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(port);
  [[maybe_unused]] int done = bind(socket, reinterpret_cast<const sockaddr*>(&from), sizeof from);
  done = ::connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  return socket;
}

void attack(std::uint16_t port) {
  std::mt19937_64 random(1);
  std::deque<int> open;
  for (std::uint32_t number = 0;; ++number) {
    const int socket = connect_once(port, number);
    pollfd ready{socket, POLLOUT, 0};
    ::poll(&ready, 1, 100);
    // Every second connection sends the beginning of a TLS handshake and stops; the others send random bytes.
    std::string words =
        number % 2 ? std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) : std::string(64, '\0');
    for (char& one : words) one = number % 2 ? one : static_cast<char>(random());
    [[maybe_unused]] const auto sent = ::send(socket, words.data(), words.size(), MSG_NOSIGNAL);
    open.push_back(socket);
    if (open.size() > kOpen) ::close(open.front()), open.pop_front();
  }
}

void compute() {
  for (volatile std::uint64_t number = 0;;) number = number + 1;
}

// Runs a server in this process, after its address is sent through the pipe `to`.
void serve(const std::string& keys, int to) {
  Server server({.keys = keys, .encrypt_loopback = true});
  const std::string address = server.address();
  if (::write(to, address.data(), address.size()) < 0) _exit(1);
  ::close(to);
  server.run();
}

class Worker {
 public:
  Worker(const std::string& address, const std::string& keys)
      : client_({.servers = {address},
                 .consistency = "async",
                 .transport = {.keys = keys, .encrypt_loopback = true}}) {
    client_.call(0, {.request = {.kind = kv_detail::Kind::init, .has_value = true, .text = "key"},
                     .payload = value()});
  }
  double push_and_pull() {
    const auto begin = Clock::now();
    client_.call(0, {.request = {.kind = kv_detail::Kind::push, .clock = ++clock_}, .payload = value()});
    client_.call(0, {.request = {.kind = kv_detail::Kind::pull, .clock = clock_},
                     .into = std::as_writable_bytes(std::span(out_))});
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

 private:
  kv_detail::Payload value() const { return {bytes_, *bytes_}; }
  const std::shared_ptr<const std::vector<std::byte>> bytes_ =
      std::make_shared<std::vector<std::byte>>(kBytes);
  std::vector<char> out_ = std::vector<char>(kBytes);
  std::uint64_t clock_ = 0;
  kv_detail::Client client_;
};

double quantile(std::vector<double>& times, double which) {
  const auto at = times.begin() + static_cast<std::ptrdiff_t>(which * static_cast<double>(times.size() - 1));
  std::nth_element(times.begin(), at, times.end());
  return *at * 1e6;
}

int run(double seconds) {
  const KeyDirectory keys;
  int pipe[2];
  if (::pipe(pipe) != 0) throw std::runtime_error("there is no pipe to be had");
  const Child server([&] { serve(keys.path, pipe[1]); });
  ::close(pipe[1]);
  char address[64] = "";
  if (::read(pipe[0], address, sizeof address - 1) <= 0)
    throw std::runtime_error("the server does not begin");
  const auto port = static_cast<std::uint16_t>(std::atoi(std::strrchr(address, ':') + 1));
  const Child computes(compute), attacks([port] { attack(port); });
  const Child* const beside[] = {&computes, &attacks};
  for (const Child* one : beside) one->set_running(false);
  Worker worker(address, keys.path);
  std::vector<double> times[2];
  const auto begun = Clock::now();
  for (int phase = 0; std::chrono::duration<double>(Clock::now() - begun).count() < seconds; ++phase) {
    beside[phase % 2]->set_running(true);
    const auto from = Clock::now();
    while (std::chrono::duration<double>(Clock::now() - from).count() < kPhase)
      times[phase % 2].push_back(worker.push_and_pull());
    beside[phase % 2]->set_running(false);
  }
  const char* const names[] = {"beside one that computes", "beside strangers"};
  for (const int which : {0, 1})
    std::printf("push and pull of 1 KiB over TLS, %-24s: %7zu times, median %7.1f us, p99 %7.1f us\n",
                names[which], times[which].size(), quantile(times[which], 0.5), quantile(times[which], 0.99));
  std::printf("p99 beside strangers / beside computing: %.2f\n",
              quantile(times[1], 0.99) / quantile(times[0], 0.99));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  char* end = nullptr;
  const double seconds = argc > 1 ? std::strtod(argv[1], &end) : 20;
  // The shortest measurement has one phase beside the garbage-sending process and one beside the other.
  if (argc > 2 || (end && *end) || !(seconds >= 2 * kPhase && seconds <= 1e6)) {
    std::fprintf(stderr,
                 "usage: kv_strangers [SECONDS], of measuring: 2 to 1000000, 20 unless told otherwise\n");
    return 2;
  }
  try {
    return run(seconds);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kv_strangers: %s\n", error.what());
    return 1;
  }
}
