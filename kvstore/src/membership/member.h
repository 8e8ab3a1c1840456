// A process's end of its connection to the scheduler. It has no thread: its owner forwards the transport's
// events, and calls tick(). It repeats messages until the scheduler has answered them. While the scheduler is
// gone, the process continues with the views that it has.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>

#include "membership/scheduler_finder.h"
#include "transport/transport.h"
#include "wire/membership.h"

namespace heddle::kv_detail {

using namespace net_detail;

struct MemberOptions {
  std::string scheduler{};  // HOST:PORT of the scheduler
  // Finds the scheduler's address before each attempt to connect; null: the address is `scheduler`.
  std::shared_ptr<SchedulerFinder> finder{};
  Role role = Role::worker;
  std::uint32_t number = kAnyNumber;       // number of the server, or rank of the worker
  std::uint32_t servers = 0, workers = 0;  // numbers of servers and workers that it expects; 0: not known
  std::uint32_t replicas = 0;              // servers: copies of each shard; 0: as the scheduler says
  std::uint64_t incarnation = 0;           // random number of the process; not 0
  std::string job{};                       // workers: name of the job
  std::string address{};                   // servers: address that workers connect to
  Versions versions{};                     // protocol versions that the process speaks
};

class Member {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  Member(Transport& transport, MemberOptions self);

  // True if the peer is the scheduler. The owner then has to forward the peer's events, on one thread.
  bool owns(Peer peer) const { return peer != 0 && peer == peer_; }
  void connected(Peer peer, Time now);
  void disconnected(Peer peer, const std::string& why, Time now);
  void received(Peer peer, std::span<const std::byte> head, Time now);  // throws MalformedMessage
  // Connects and sends heartbeats. To be called every interval() or more often, else the scheduler may take
  // this process for gone.
  void tick(Time now);
  // To be called during long work, in which no messages are received: sends a heartbeat if one is due.
  void keep_alive(Time now);
  Duration interval() const;

  // Servers: reports that a copy of a shard, whose primary this process is, has all state. `epoch`: number of
  // the copy. The report is repeated until the shard has a later epoch.
  void report_synced(std::uint32_t shard, std::uint64_t epoch);
  // Servers: reports that a copy has lost state that it had confirmed. `epoch`: number of the copy. Only sent
  // with protocol version 2 or later.
  void report_lost(std::uint32_t shard, std::uint64_t epoch);
  // Servers: asks the scheduler to move this server's shards to other servers. The scheduler's views show
  // when that is done.
  void leave();
  // Called when this host can never reach the scheduler's address. A process without views gives up, as if it
  // was refused. A process with views goes on, since the scheduler may move to another address.
  void cannot_connect(Peer peer, const std::string& why, Time now);

  // Tells the scheduler that this process ends. The transport's next poll() sends the message.
  void unregister();

  bool is_registered() const { return state_ == State::registered; }
  bool is_refused() const { return state_ == State::refused; }  // whether the process is refused for good
  // Whether the last attempt to register was refused. Unless is_refused(), the process tries again.
  bool is_refused_now() const { return refused_since_ != Time(); }
  const std::string& why() const { return why_; }  // why this process is not registered, or has no views yet
  Time lost_since() const { return lost_since_; }  // since when the process is not registered, if it is not
  // The scheduler's answer, valid once the process has been registered for the first time.
  const Registered& registered() const { return registered_; }
  const Views& views() const { return views_; }
  const MemberOptions& self() const { return self_; }

  // The functions on_...() are set by the owner, and may be empty.
  std::function<void(const Registered&)> on_registered{};
  // Called with newer views; versions in between may be left out.
  std::function<void(const Views&)> on_views{};
  std::function<void(const std::string& why)> on_refused{};  // called when the process is refused for good
  std::function<void()> on_over{};                           // called once, when all workers have left

 private:
  enum class State : std::uint8_t { waiting, connecting, asked, registered, refused, departed };
  bool find(Time now);
  void lose(const std::string& why, Time now);
  void retry_later(Time now);
  void refused(const Refused& refused, Time now);
  void take_views(Views views);
  void send_heartbeat(Time now);

  Transport& transport_;
  MemberOptions self_;
  const std::uint32_t wanted_number_;
  State state_ = State::waiting;
  Peer peer_ = 0;
  std::mt19937_64 random_;
  Duration pause_;  // pause before the next attempt to connect
  Time next_try_{}, lost_since_{}, heard_{}, next_heartbeat_{};
  Time refused_since_{};  // time since which all attempts were refused; Time(): the last one was not
  std::string why_{"it has not been reached yet"};
  Registered registered_{};
  Views views_{};
  std::map<std::uint32_t, std::uint64_t> synced_, lost_;  // reports to repeat: number of the copy, by shard
  bool over_ = false, leaving_ = false, looking_ = false;
};

// The name of this process in messages: "host, process 123".
std::string this_process();

}  // namespace heddle::kv_detail
