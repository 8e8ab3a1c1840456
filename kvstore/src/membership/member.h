// A process's end of its connection to the scheduler. It has no thread: its owner forwards the events of the transport, and
// calls tick(). Whatever the scheduler does not answer is asked again; without the scheduler a process goes on with the views
// that it has.
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

struct MemberOptions {
  std::string scheduler{};  // HOST:PORT
  std::shared_ptr<SchedulerFinder>
      finder{};  // says where the scheduler is, each time that it is needed; null: it stays there
  Role role = Role::worker;
  std::uint32_t number = kAnyNumber;       // a server's number, a worker's rank
  std::uint32_t servers = 0, workers = 0;  // how many the process knows of; 0: it does not know
  std::uint32_t replicas = 0;              // servers; 0: as the scheduler says
  std::uint64_t incarnation = 0;           // not 0
  std::string job{};                       // workers
  std::string address{};                   // servers: where workers connect
  Versions versions{};                     // of the protocol, that it speaks
};

class Member {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  Member(Transport& transport, MemberOptions self);

  // Whether an event of the transport belongs to this connection: the owner calls these functions then, on one thread.
  bool owns(Peer peer) const { return peer != 0 && peer == peer_; }
  void connected(Peer peer, Time now);
  void disconnected(Peer peer, const std::string& why, Time now);
  void received(Peer peer, std::span<const std::byte> head, Time now);  // throws MalformedMessage
  // Connects, sends heartbeats. To be called every interval(), or sooner; after a longer time the scheduler may find that
  // this process is gone.
  void tick(Time now);
  // In the middle of long work, in which nobody is heard: sends a heartbeat if one is due.
  void keep_alive(Time now);
  Duration interval() const;

  // Servers: the backup of a shard whose primary this process is has all state. It is told until the shard has another epoch.
  void report_synced(std::uint32_t shard, std::uint64_t epoch);
  // The same of a backup that has not the state that it had confirmed. Ignored by a scheduler of version 1.
  void report_lost(std::uint32_t shard, std::uint64_t epoch);
  // Servers: asks the scheduler to give what this process has to others. It has nothing when the views say so.
  void leave();
  // This host can never reach that scheduler. A process that has no views yet gives up, as if refused; one that has goes on, since
  // the scheduler may come to be elsewhere.
  void cannot_connect(Peer peer, const std::string& why, Time now);

  // This process ends: nobody need wait for it. Goes with the transport's next poll().
  void depart();

  bool is_registered() const { return state_ == State::registered; }
  bool is_refused() const { return state_ == State::refused; }      // for good; why() says why
  bool is_refused_now() const { return refused_since_ != Time(); }  // and tries again
  const std::string& why() const { return why_; }  // it is not registered, or has no views yet
  Time lost_since() const { return lost_since_; }  // while it is not registered
  // Number and counts, once the process has been registered for the first time.
  const Registered& registered() const { return registered_; }
  const Views& views() const { return views_; }
  const MemberOptions& self() const { return self_; }

  // Called inside received(); may be empty.
  std::function<void(const Registered&)> on_registered{};
  std::function<void(const Views&)> on_views{};              // each newer version; some may be left out
  std::function<void(const std::string& why)> on_refused{};  // for good
  std::function<void()> on_over{};                           // once: all workers have left

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
  Duration pause_;  // before the next attempt to connect
  Time next_try_{}, lost_since_{}, heard_{}, next_heartbeat_{};
  Time refused_since_{};  // in vain; the epoch: not
  std::string why_{"it has not been reached yet"};
  Registered registered_{};
  Views views_{};
  std::map<std::uint32_t, std::uint64_t> synced_, lost_;  // epoch by shard
  bool over_ = false, leaving_ = false, looking_ = false;
};

// "host, process 123": how messages call this process.
std::string this_process();

}  // namespace heddle::kv_detail
