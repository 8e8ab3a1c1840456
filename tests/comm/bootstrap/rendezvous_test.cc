#include "bootstrap/rendezvous.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <mutex>
#include <random>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>
#include <netinet/in.h>

#include <heddle/comm_error.h>
#include <heddle/log.h>

#include "bootstrap/rendezvous_wire.h"
#include "files.h"

using namespace heddle;
using namespace heddle::comm_detail;

namespace {

constexpr std::chrono::milliseconds kLong{30000}, kShort{100};

LaunchEnvironment job(int rank, int size, const std::string& place) {
  return {.rank = rank, .size = size, .local_rank = rank, .local_size = size, .rendezvous = place};
}

// A port of 127.0.0.1 or ::1 that was free when this function looked; 0 if the host has no such address.
int free_port(int family = AF_INET) {
  const int socket = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 address{};
  socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  address.sin6_family = static_cast<sa_family_t>(family);
  if (family == AF_INET) reinterpret_cast<sockaddr_in&>(address).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (family == AF_INET6) address.sin6_addr = in6addr_loopback;
  const bool bound = socket >= 0 && ::bind(socket, reinterpret_cast<sockaddr*>(&address), length) == 0;
  if (bound) ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length);
  if (socket >= 0) ::close(socket);
  // For IPv4 too, since sin_port and sin6_port have the same offset.
  return bound ? ntohs(address.sin6_port) : 0;
}

std::string tcp_place() { return "tcp:127.0.0.1:" + std::to_string(free_port()); }

// Runs `body` for each rank on a thread. Returns the text of each rank's error; empty if there is none.
std::vector<std::string> together(int size, const std::function<void(int)>& body) {
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

bool all_well(const std::vector<std::string>& errors) {
  for (const std::string& error : errors) CHECK(error == "");
  return std::all_of(errors.begin(), errors.end(), [](const std::string& error) { return error.empty(); });
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string text_of(int rank, int round) {
  return std::string(static_cast<std::size_t>(round) * 1000, 'x') + std::to_string(rank);
}

void gather_often(Rendezvous& all, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    const auto texts = all.all_gather(text_of(all.rank(), round));
    if (static_cast<int>(texts.size()) != all.size()) throw std::runtime_error("wrong number of texts");
    for (int rank = 0; rank < all.size(); ++rank) {
      if (texts[static_cast<std::size_t>(rank)] != text_of(rank, round))
        throw std::runtime_error("wrong text");
    }
  }
}

void check_meeting(int size, const std::string& place) {
  std::vector<std::uint32_t> epochs(static_cast<std::size_t>(size));
  CHECK(all_well(together(size, [&](int rank) {
    const auto all = make_rendezvous(job(rank, size, place), kLong);
    if (all->rank() != rank || all->size() != size) throw std::runtime_error("wrong rank or size");
    epochs[static_cast<std::size_t>(rank)] = all->epoch();
    gather_often(*all, 5);
  })));
  CHECK(std::count(epochs.begin(), epochs.end(), epochs[0]) == size);
}

// A process that does not belong to the job, and connects to the rendezvous as soon as rank 0 listens.
class Stranger {
 public:
  explicit Stranger(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(path.begin(), path.end(), address.sun_path);
    while (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      std::this_thread::yield();
  }
  ~Stranger() { ::close(socket_); }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  void say(const std::string& bytes) const {
    (void)!::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void say(const FrameHeader& header) const {
    say(std::string(reinterpret_cast<const char*>(&header), sizeof header));
  }
  // Reads until the other side closes the connection. Returns what it has read.
  std::string hear() const {
    std::string heard;
    char buffer[1000];
    for (ssize_t count; (count = ::recv(socket_, buffer, sizeof buffer, 0)) > 0;) {
      heard.append(buffer, static_cast<std::size_t>(count));
    }
    return heard;
  }

 private:
  int socket_;
};

struct Place {
  test::TemporaryDirectory directory;
  std::string path = directory.file("meet.sock"), text = "unix:" + path;
  bool is_clean() const { return std::filesystem::is_empty(directory.path); }
};

// Runs `body` in a child process, which exits without this program's exit handlers.
pid_t fork_to(const std::function<void()>& body) {
  std::fflush(nullptr);  // otherwise the child would print this process's buffered output too
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child != 0) return child;
  try {
    body();
  } catch (...) {
    ::_exit(1);
  }
  ::_exit(0);
}

int status_of(pid_t child) {
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

}  // namespace

TEST_CASE("a job of one meets nobody, and needs no place for it") {
  const auto alone = make_rendezvous({}, kShort);
  CHECK(alone->size() == 1);
  CHECK(alone->all_gather("a") == std::vector<std::string>{"a"});
  CHECK_THROWS_AS(alone->all_gather(std::string(65537, 'a')), InvalidArgument);
}

TEST_CASE("ranks meet at a unix socket, which is gone then") {
  for (int size : {2, 3, 8}) {
    const Place place;
    check_meeting(size, place.text);
    CHECK(place.is_clean());
    check_meeting(size, place.text);
  }
}

TEST_CASE("ranks meet at a port, by IPv4, IPv6 and name") {
  check_meeting(3, tcp_place());
  check_meeting(2, "tcp:localhost:" + std::to_string(free_port()));
  if (const int port = free_port(AF_INET6)) check_meeting(2, "tcp:[::1]:" + std::to_string(port));
}

TEST_CASE("the next meeting at the same place is another one") {
  for (const std::string& place : {tcp_place(), std::string()}) {
    const Place own;
    CHECK(all_well(together(3, [&](int rank) {
      const LaunchEnvironment mine = job(rank, 3, place.empty() ? own.text : place);
      std::vector<std::uint32_t> epochs;
      for (int meeting = 0; meeting < 20; ++meeting) {
        const auto all = make_rendezvous(mine, kLong);
        gather_often(*all, 2);
        epochs.push_back(all->epoch());
      }
      std::sort(epochs.begin(), epochs.end());
      if (std::unique(epochs.begin(), epochs.end()) != epochs.end())
        throw std::runtime_error("epochs repeat");
    })));
  }
}

TEST_CASE("texts are 64 KiB at most, and as many bytes of any value") {
  const Place place;
  CHECK(all_well(together(4, [&](int rank) {
    const auto all = make_rendezvous(job(rank, 4, place.text), kLong);
    try {
      all->all_gather(std::string(65537, 'a'));
      throw std::runtime_error("too long a text was taken");
    } catch (const InvalidArgument&) {
    }
    const auto texts = all->all_gather(std::string(65536, static_cast<char>(rank)));
    for (int other = 0; other < 4; ++other) {
      if (texts[static_cast<std::size_t>(other)] != std::string(65536, static_cast<char>(other)))
        throw std::runtime_error("wrong text");
    }
  })));
}

TEST_CASE("processes meet") {
  const Place place;
  std::vector<pid_t> children;
  for (int rank = 1; rank < 4; ++rank) {
    children.push_back(fork_to([&] { gather_often(*make_rendezvous(job(rank, 4, place.text), kLong), 10); }));
  }
  gather_often(*make_rendezvous(job(0, 4, place.text), kLong), 10);
  for (const pid_t child : children) CHECK(status_of(child) == 0);
  CHECK(place.is_clean());
}

TEST_CASE("a process that is killed between two gatherings is named to all others") {
  const Place place;
  const pid_t killed = fork_to([&] {
    const auto all = make_rendezvous(job(2, 4, place.text), kLong);
    all->all_gather("");
    ::raise(SIGKILL);
  });
  const auto survive = [&](int rank) {
    const auto all = make_rendezvous(job(rank, 4, place.text), kLong);
    all->all_gather("");
    try {
      all->all_gather("");
    } catch (const PeerLost& error) {
      return error.rank();
    }
    return -1;
  };
  std::vector<pid_t> others;
  for (int rank : {1, 3}) {
    others.push_back(fork_to([&, rank] {
      if (survive(rank) != 2) throw 0;
    }));
  }
  CHECK(survive(0) == 2);
  for (const pid_t child : others) CHECK(status_of(child) == 0);
  CHECK(WTERMSIG(status_of(killed)) == SIGKILL);
}

TEST_CASE("rank 0 that is killed is named to the others") {
  const Place place;
  const pid_t killed = fork_to([&] {
    const auto all = make_rendezvous(job(0, 2, place.text), kLong);
    all->all_gather("");
    ::raise(SIGKILL);
  });
  const auto all = make_rendezvous(job(1, 2, place.text), kLong);
  all->all_gather("");
  int lost = -1;
  try {
    all->all_gather("");
  } catch (const PeerLost& error) {
    lost = error.rank();
  }
  CHECK(lost == 0);
  CHECK(WTERMSIG(status_of(killed)) == SIGKILL);
}

TEST_CASE("who does not come in time is named to those who have") {
  const Place place;
  const auto errors = together(4, [&](int rank) {
    if (rank != 1 && rank != 3)
      make_rendezvous(job(rank, 4, place.text), rank == 0 ? std::chrono::milliseconds(2000) : kLong);
  });
  CHECK(holds(errors[0], "ranks 1, 3 of 4 have not come to unix:"));
  CHECK(errors[2] == errors[0]);
  CHECK(place.is_clean());
  const auto without_root = together(2, [&](int rank) {
    if (rank == 1) make_rendezvous(job(1, 2, place.text), kShort);
  });
  CHECK(holds(without_root[1], "rank 0 of 2 has not come"));
  CHECK_FALSE(holds(without_root[1], "grow()"));
}

TEST_CASE("a process that was started anew and waits in vain is told how the others meet it") {
  const Place place;
  ::setenv("HEDDLE_RESTART", "1", 1);
  const auto errors = together(2, [&](int rank) {
    if (rank == 1) make_rendezvous(job(1, 2, place.text), kShort);
  });
  const auto root = together(1, [&](int) { make_rendezvous(job(0, 2, place.text), kShort); });
  ::unsetenv("HEDDLE_RESTART");
  CHECK(holds(errors[1], "HEDDLE_RESTART is 1: the others meet it by grow()"));
  CHECK(holds(root[0], "HEDDLE_RESTART is 1: the others meet it by grow()"));
}

TEST_CASE("a rank that waits says for whom, and why one was refused") {
  std::mutex mutex;
  std::string log;
  std::atomic<bool> root_said{false}, peer_said{false};
  set_log([&](std::string_view text) {
    const std::lock_guard lock(mutex);
    log += std::string(text) + "\n";
    root_said = root_said || holds(log, "rank 0 has waited for ");
    peer_said = peer_said || holds(log, "rank 1 has waited for ");
  });
  const std::string place = tcp_place(), other = tcp_place();
  std::thread late_root([&] {
    while (!peer_said) std::this_thread::yield();
    make_rendezvous(job(0, 2, other), kLong);
  });
  std::thread root([&] { make_rendezvous(job(0, 2, place), kLong); });
  std::thread peer([&] { make_rendezvous(job(1, 2, other), kLong); });
  std::string refused;
  while (refused.empty()) {
    try {
      make_rendezvous(job(1, 3, place), kLong);
    } catch (const CommError& error) {
      refused = error.what();
    }
  }
  while (!root_said) std::this_thread::yield();
  make_rendezvous(job(1, 2, place), kLong);
  for (std::thread* const thread : {&root, &peer, &late_root}) thread->join();
  set_log({});
  CHECK(holds(log, " at " + place + " for rank 1 of 2; one that came was refused: rank 0's job"));
  CHECK(holds(log, " for rank 0 of 2, which has not come to " + other));
}

TEST_CASE("who does not gather in time is named to those who do") {
  const Place place;
  std::atomic<int> over{0};
  const auto errors = together(3, [&](int rank) {
    const auto all =
        make_rendezvous(job(rank, 3, place.text), std::chrono::milliseconds(rank == 0 ? 2000 : 30000));
    if (rank == 2) {
      over.wait(0);
      return;
    }
    try {
      all->all_gather("");
    } catch (...) {
      if (rank == 0) over = 1, over.notify_all();
      throw;
    }
  });
  CHECK(holds(errors[0], "rank 2 of 3 has not answered"));
  CHECK(errors[1] == errors[0]);
}

TEST_CASE("a rank of a job of another size, and one that is there already, are refused; the others meet") {
  const Place place;
  std::atomic<int> refused{0};
  const auto errors = together(4, [&](int thread) {
    if (thread == 0) return gather_often(*make_rendezvous(job(0, 3, place.text), kLong), 2);
    if (thread == 1) {
      const auto all = make_rendezvous(job(1, 3, place.text), kLong);
      return gather_often(*all, 2);
    }
    if (thread == 2) {
      refused.wait(0);
      return gather_often(*make_rendezvous(job(2, 3, place.text), kLong), 2);
    }
    try {
      make_rendezvous(job(1, 5, place.text), kLong);
    } catch (...) {
      refused = 1, refused.notify_all();
      throw;
    }
  });
  for (int rank = 0; rank < 3; ++rank) CHECK(errors[static_cast<std::size_t>(rank)] == "");
  CHECK(holds(errors[3], "has 3 ranks"));
  CHECK(holds(errors[3], "has 5"));
}

TEST_CASE("of two processes that say that they are the same rank, one is refused") {
  const Place place;
  std::atomic<int> refused{0};
  const auto errors = together(4, [&](int thread) {
    if (thread == 3) refused.wait(0);
    try {
      gather_often(*make_rendezvous(job(thread == 3 ? 2 : std::min(thread, 1), 3, place.text), kLong), 2);
    } catch (...) {
      refused = 1, refused.notify_all();
      throw;
    }
  });
  CHECK(errors[0] == "");
  CHECK(errors[3] == "");
  CHECK(errors[1].empty() != errors[2].empty());
  CHECK(holds(errors[1] + errors[2], "rank 1 is there already"));
}

TEST_CASE("strangers who say nothing, or hostile bytes, disturb nobody") {
  const Place place;
  std::mt19937 random(7);
  const auto errors = together(3, [&](int thread) {
    if (thread == 0) return gather_often(*make_rendezvous(job(0, 2, place.text), kLong), 2);
    if (thread == 2) return;
    const Stranger silent(place.path), half(place.path);
    half.say(std::string("HD"));
    std::vector<std::unique_ptr<Stranger>> crowd;
    for (int i = 0; i < 200; ++i) crowd.push_back(std::make_unique<Stranger>(place.path));
    for (int i = 0; i < 300; ++i) {
      const Stranger hostile(place.path);
      FrameHeader header{.rank = 1, .size = 2};
      std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
      // Changes the magic number, a suffix of the header, or the whole header at random, so the header is
      // almost certainly invalid.
      const std::size_t changed = random() % 3;
      for (std::size_t at = changed == 0 ? 0 : random() % 8; at < (changed == 2 ? 8u : bytes.size()); ++at)
        bytes[at] = static_cast<char>(random());
      hostile.say(bytes + std::string(random() % 3000, static_cast<char>(random())));
    }
    gather_often(*make_rendezvous(job(1, 2, place.text), kLong), 2);
  });
  CHECK(all_well(errors));
  CHECK(place.is_clean());
}

TEST_CASE("headers with impossible numbers are refused without an answer") {
  const Place place;
  const auto errors = together(2, [&](int rank) {
    if (rank == 0) return gather_often(*make_rendezvous(job(0, 2, place.text), kLong), 2);
    std::vector<FrameHeader> bad(6, FrameHeader{.rank = 1, .size = 2});
    bad[0].magic = 0;
    bad[1].version = 77;
    bad[2].length = 65537;
    bad[3].type = static_cast<FrameType>(7);
    bad[4].rank = 2;
    bad[5].rank = -2;
    for (const FrameHeader& header : bad) {
      const Stranger stranger(place.path);
      stranger.say(header);
      if (!stranger.hear().empty()) throw std::runtime_error("was answered");
    }
    gather_often(*make_rendezvous(job(1, 2, place.text), kLong), 2);
  });
  CHECK(all_well(errors));
}

TEST_CASE("a socket that a killed job has left is replaced, anything else is left alone") {
  const Place place;
  const pid_t killed = fork_to([&] { make_rendezvous(job(0, 2, place.text), kLong); });
  { const Stranger somebody(place.path); }
  ::kill(killed, SIGKILL);
  CHECK(WTERMSIG(status_of(killed)) == SIGKILL);
  CHECK(std::filesystem::is_socket(place.path));
  check_meeting(2, place.text);
  CHECK(place.is_clean());
  test::write_file(place.path, "precious");
  CHECK_THROWS_AS(make_rendezvous(job(0, 2, place.text), kShort), CommError);
  CHECK(test::read_file(place.path) == "precious");
}

TEST_CASE("a place where another job meets is not taken from it") {
  const Place place;
  std::atomic<int> tried{0};
  const auto errors = together(3, [&](int thread) {
    if (thread == 0) make_rendezvous(job(0, 2, place.text), kLong);
    if (thread == 1) {
      tried.wait(0);
      make_rendezvous(job(1, 2, place.text), kLong);
    }
    if (thread == 2) {
      { const Stranger wait_until_somebody_listens(place.path); }
      try {
        make_rendezvous(job(0, 2, place.text), kShort);
      } catch (...) {
        tried = 1, tried.notify_all();
        throw;
      }
    }
  });
  CHECK(errors[0] == "");
  CHECK(errors[1] == "");
  CHECK(holds(errors[2], "tried for 0.1 s: it is in use by another process"));
}

TEST_CASE("the directory that a job chooses for its socket is made, for the user alone") {
  const test::TemporaryDirectory directory;
  const std::string own = directory.file("heddle-" + std::to_string(::getuid()));
  CHECK(all_well(together(
      2, [&](int rank) { gather_often(*make_rendezvous(job(rank, 2, "unix:" + own + "/a"), kLong), 1); })));
  const auto mode = std::filesystem::status(own).permissions();
  CHECK(mode == std::filesystem::perms::owner_all);
}

TEST_CASE(
    "a directory that somebody has named for the socket is not made; whoever meets there is told which it "
    "is") {
  const test::TemporaryDirectory directory;
  const std::string named = directory.file("such"), place = "unix:" + named + "/x";
  const std::vector<std::string> errors =
      together(2, [&](int rank) { make_rendezvous(job(rank, 2, place), rank == 0 ? kLong : kShort); });
  for (const std::string& error : errors) {
    CAPTURE(error);
    CHECK(holds(error, "there is no directory " + named + ", where the ranks are to meet at " + place));
  }
  CHECK_FALSE(std::filesystem::exists(named));
}

TEST_CASE("an address that others can reach is refused without keys") {
  const test::TemporaryDirectory empty;
  const SecurityPolicy none({.directory = empty.path});
  for (int rank : {0, 1}) {
    const auto errors =
        together(1, [&](int) { make_rendezvous(job(rank, 2, "tcp:192.0.2.1:5"), kShort, none); });
    CHECK(holds(errors[0], "HEDDLE_COMM_INSECURE=1"));
    CHECK(holds(errors[0], "heddle keygen"));
  }
}

TEST_CASE("a place that is none is refused") {
  for (const char* bad :
       {"", "unix:", "unix:a", "tcp:", "tcp:a", "tcp::5", "tcp:a:0", "tcp:a:65536", "tcp:a:5x", "a:5"}) {
    for (int rank : {0, 1}) CHECK_THROWS_AS(make_rendezvous(job(rank, 2, bad), kShort), InvalidArgument);
  }
  CHECK_THROWS_AS(make_rendezvous(job(0, 2, "unix:/" + std::string(107, 'a')), kShort), InvalidArgument);
  CHECK_THROWS_AS(make_rendezvous(job(2, 2, "unix:/tmp/a"), kShort), InvalidArgument);
}

TEST_CASE("a host that there is not is told from a place that is taken, on both sides") {
  const std::string host(70, 'x');  // longer than a DNS label may be, so no name server is asked
  const std::string place = "tcp:" + host + ":1";
  const std::string expected = "'" + host + "' is no host: ";
  const auto errors = together(2, [&](int rank) { make_rendezvous(job(rank, 2, place), kShort); });
  CHECK(holds(errors[0], "rank 0 cannot listen at " + place + ", tried for 0.1 s: " + expected));
  CHECK(holds(errors[1], "rank 0 of 2 has not come to " + place + " in 0.1 s: " + expected));
}

TEST_CASE("a rank 0 with too many open files says so") {
  const Place place;
  const pid_t rank0 = fork_to([&] {
    // The lowest free descriptor. With the limit set to it there is a descriptor for the listener, and none
    // for a connection.
    const int next = ::dup(0);
    ::close(next);
    const rlimit limit{static_cast<rlim_t>(next) + 1, static_cast<rlim_t>(next) + 1};
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) throw std::runtime_error("no limit");
    try {
      make_rendezvous(job(0, 2, place.text), kLong);
    } catch (const CommError& error) {
      if (holds(error.what(), "a connection cannot be accepted: Too many open files")) return;
    }
    throw std::runtime_error("another error, or none");
  });
  const auto rank1 =
      together(1, [&](int) { make_rendezvous(job(1, 2, place.text), std::chrono::seconds(1)); });
  CHECK(rank1[0] != "");
  CHECK(status_of(rank0) == 0);
}
