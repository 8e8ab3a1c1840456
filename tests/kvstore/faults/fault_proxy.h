// Stands between the TCP connections of two processes and does what networks do: it delays, loses connections, leaves them
// half-open, changes bytes and cuts messages in the middle, at random.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "net/socket.h"

namespace heddle::test {

struct FaultCounts {
  std::uint64_t connections = 0, chunks = 0, delays = 0, losses = 0, mutes = 0, corruptions = 0, cuts = 0;
};

class FaultProxy {
 public:
  // Connections to address() go on to `target`, an IPv4 HOST:PORT. One chunk of bytes in `rare` meets a fault, of which
  // few leave a connection half-open; 0: none does.
  FaultProxy(const std::string& target, std::uint64_t seed, int rare);
  ~FaultProxy();
  const std::string& address() const { return address_; }
  void set_rare(int rare) { rare_.store(rare); }  // any thread, as the others
  void refuse();                                  // ends all connections, and lets nobody in any more
  FaultCounts counts() const;                     // when the thread rests, exact

 private:
  using Clock = std::chrono::steady_clock;
  enum Fault : std::size_t { kDelay, kLoss, kMute, kCorruption, kCut, kFaults };
  // Bytes from one side to the other.
  struct Way {
    std::vector<char> held{};
    Clock::time_point until{};  // they are held
  };
  struct Connection {
    comm_detail::Socket sides[2];  // the client's, the server's
    Way ways[2];                   // from the client, from the server
    bool mute = false;             // forwards nothing more, and stays open
    bool over = false;
  };
  void run();
  void accept_all();
  void read_from(Connection& connection, int side);
  void forward(Connection& connection, int side, std::vector<char> chunk);
  void write_to(Connection& connection, int side);
  void end(Connection& connection, bool reset);
  int wait_time() const;
  std::uint64_t random(std::uint64_t below) { return random_() % below; }

  std::string host_;
  std::uint16_t port_ = 0;
  std::mt19937_64 random_;
  std::atomic<int> rare_;
  std::atomic<bool> stopping_{false}, refusing_{false};
  comm_detail::EventFd wake_;
  comm_detail::Socket listener_;
  std::string address_;
  std::list<Connection> connections_;
  std::atomic<std::uint64_t> accepted_{0}, chunks_{0}, faults_[kFaults]{};
  std::thread thread_;
};

}  // namespace heddle::test
