// A simulated network of processes, on one thread with its own clock. Connections, delays, cuts, partitions
// and deaths happen in an order determined by a seed.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server/job/job.h"
#include "transport/transport.h"

namespace heddle::kv_detail::sim {

using namespace net_detail;

class Network;

// A process on the network. The network calls it when Network::now is the time of the event.
class Process : public Receiver {
 public:
  virtual void tick() = 0;
};

// The transport of a process. Its connections end when the process dies.
class SimTransport final : public Transport {
 public:
  SimTransport(Network& network, std::string address) : network_(network), address_(std::move(address)) {}
  std::string listen(const std::string&) override { return address_; }
  Peer connect(const std::string& address) override;
  void send(Peer peer, Message message) override;
  std::size_t queued(Peer) const override { return 0; }
  void close(Peer peer) override;
  void poll(std::chrono::microseconds) override {}
  void wake() noexcept override {}
  const std::string& address() const { return address_; }

 private:
  Network& network_;
  const std::string address_;
};

class Network {
 public:
  explicit Network(std::uint64_t seed) : random(seed) {}

  // To start a process at an address that has none: add() makes its transport, then run() starts it, and
  // calls its tick() at the interval `tick`.
  SimTransport& add(const std::string& address);
  void run(SimTransport& transport, Process& process, Clock::duration tick);
  void kill(const std::string& address);
  bool is_alive(const std::string& address) const { return hosts_.contains(address); }
  // The process does nothing for this time, and gets its messages afterwards.
  void pause(const std::string& address, Clock::duration time);
  // Delays all messages between the addresses `a` and `b` for that time, without closing connections.
  void separate(const std::string& a, const std::string& b, Clock::duration time);
  void cut_one();  // cuts a random connection
  // Cuts all connections between the addresses `a` and `b`.
  void cut(const std::string& a, const std::string& b);

  void after(Clock::duration time, std::function<void()> what);
  // Handles the next event. Returns false if there is none.
  bool step();
  std::uint64_t below(std::uint64_t limit) { return random() % limit; }

  std::mt19937_64 random;
  Clock::time_point now{};
  // Called for each message that is sent. `number` is the connection's peer number at the receiver.
  std::function<void(const std::string& from, const std::string& to, Peer number, const Message&)> on_send{};

 private:
  friend class SimTransport;
  struct Host {
    SimTransport* transport = nullptr;
    Process* process = nullptr;
    std::uint64_t life = 0;
    Clock::time_point paused_until{};
    std::deque<std::function<void(Process&)>> backlog{};  // events that came during a pause, in order
  };
  struct End {
    std::string address;
    std::uint64_t life = 0;
    Peer other = 0;  // the other end of the connection, a key of ends_
    bool open = false;
    Clock::time_point last{};  // when the latest message to this end arrives
  };
  struct Event {
    Clock::time_point time;
    std::uint64_t order;
    std::function<void()> what;
    bool operator<(const Event& other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };
  Clock::duration delay();
  Clock::duration silence(const std::string& a, const std::string& b) const;
  void at_host(const std::string& address, std::uint64_t life, Clock::time_point time,
               std::function<void(Process&)> what);
  void end(Peer at, const std::string& why);  // closes this end of a connection, and tells its process
  void close_both(Peer at, const std::string& why);
  void deliver(Peer to, const Message& message);
  void resume(const std::string& address, std::uint64_t life);
  void tick(const std::string& address, std::uint64_t life, Clock::duration interval);

  std::map<std::string, Host> hosts_;
  std::vector<std::unique_ptr<SimTransport>> transports_;
  std::unordered_map<Peer, End> ends_;  // ends of connections, by the peer number that the end's process uses
  std::map<std::pair<std::string, std::string>, Clock::time_point> separate_until_;
  std::priority_queue<Event> events_;
  std::uint64_t last_order_ = 0, lives_ = 0;
  Peer last_peer_ = 0;
};

}  // namespace heddle::kv_detail::sim
