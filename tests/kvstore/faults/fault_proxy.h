// A TCP proxy between two processes that injects faults at random, as networks and attackers cause them:
// delays, lost and half-open connections, changed, truncated and doubled bytes, replays, and reordering
// between connections.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "connection/socket.h"

namespace heddle::test {

struct FaultCounts {
  std::uint64_t connections = 0, chunks = 0, delays = 0, losses = 0, mutes = 0, corruptions = 0, cuts = 0;
  std::uint64_t doubled = 0, replays = 0, overtaken = 0;
};

class FaultProxy {
 public:
  // Forwards connections to address() to `target`, an IPv4 HOST:PORT. One in `rare` chunks of bytes meets a
  // fault; with 0 none does. Only a few of the faults leave a connection half-open.
  FaultProxy(const std::string& target, std::uint64_t seed, int rare);
  // For a process that needs address() before it starts: set_target() gives the target later.
  FaultProxy(std::uint64_t seed, int rare);
  // Must be called before the first connection. `target` is 127.0.0.1:PORT.
  void set_target(const std::string& target);
  ~FaultProxy();
  const std::string& address() const { return address_; }
  // Callable on any thread, like refuse() and counts().
  void set_rare(int rare) { rare_.store(rare); }
  void refuse();               // closes all connections, and refuses new ones
  FaultCounts counts() const;  // exact while no bytes are forwarded

 private:
  using Clock = std::chrono::steady_clock;
  enum Fault : std::size_t { kDelay, kLoss, kMute, kCorruption, kCut, kDouble, kReplay, kOvertake, kFaults };
  // One direction of a connection. Held bytes wait until `until`, or until all connections together have
  // forwarded `until_chunk` chunks.
  struct Way {
    std::vector<char> held{};
    Clock::time_point until{};
    std::uint64_t until_chunk = 0;
  };
  struct Connection {
    net_detail::Socket sides[2];  // sockets of the client and of the server
    Way ways[2];                  // bytes from the client, bytes from the server
    std::vector<char> begun{};    // the client's first bytes, which a replay repeats
    bool mute = false;            // true: the proxy forwards nothing more, and keeps the connection open
    bool over = false;
  };
  void run();
  void accept_all();
  void read_from(Connection& connection, int side);
  void forward(Connection& connection, int side, std::vector<char> chunk);
  Fault any_fault();
  void replay_all();
  bool is_held(const Way& way, Clock::time_point now) const {
    return way.until > now && chunks_.load() < way.until_chunk;
  }
  void write_to(Connection& connection, int side);
  void end(Connection& connection, bool reset);
  int wait_time() const;
  std::uint64_t random(std::uint64_t below) { return random_() % below; }

  std::atomic<std::uint16_t> port_{0};
  std::mt19937_64 random_;
  std::atomic<int> rare_;
  std::atomic<bool> stopping_{false}, refusing_{false};
  net_detail::EventFd wake_;
  net_detail::Socket listener_;
  std::string address_;
  std::list<Connection> connections_;
  // Recorded beginnings of connections, each to be sent in a new connection.
  std::vector<std::vector<char>> replays_;
  std::atomic<std::uint64_t> accepted_{0}, chunks_{0}, faults_[kFaults]{};
  std::thread thread_;
};

}  // namespace heddle::test
