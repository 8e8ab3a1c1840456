// The scheduler without threads, clocks, connections and files. SchedulerCore is given events and the time,
// and returns what to save and to send. So a test can run it in any order and at any speed.
//
// The owner saves SchedulerOutbox::save before it sends messages of this outbox. So the saved state is never
// older than the views that a process has seen, and a restarted scheduler decides nothing that contradicts
// these views.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <heddle/store_scheduler.h>

#include "membership/scheduler_state.h"
#include "membership/view_rules.h"
#include "transport/transport.h"
#include "wire/membership.h"

namespace heddle::kv_detail {

using namespace net_detail;

struct SchedulerOutbox {
  std::optional<SchedulerState> save;  // state to save before `messages` are sent; empty: no change
  std::vector<std::pair<Peer, std::vector<std::byte>>> messages;
  std::vector<Peer> closed;
  std::vector<ServerEvent> events;
};

class SchedulerCore {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `state`: as saved, or of a new cluster. Throws InvalidArgument if it is for another number of servers.
  SchedulerCore(const StoreSchedulerOptions& options, SchedulerState state, Time now);

  // `roles`: what comm.allowed permits the peer's key.
  void connected(Peer peer, const KeyRoles& roles = net_detail::kAllRoles);
  void disconnected(Peer peer, const std::string& why, Time now);
  void received(Peer peer, std::span<const std::byte> head, Time now);  // throws MalformedMessage
  // Finds processes that are gone, and changes views. To be called every 20 ms or so, after received().
  void tick(Time now);
  // Called when the scheduler was stopped, or busy, for this time, in which it could hear nobody.
  void paused(Time::duration time);

  SchedulerOutbox take_outbox() { return std::exchange(out_, {}); }
  // Option `once`: whether all workers have left, and all processes were told so.
  bool is_over() const { return over_; }
  const Views& views() const { return rules_.views(); }
  StoreSchedulerStats stats() const;
  std::vector<Peer> peers() const;

 private:
  // The latest process that has registered with some server number, or with some rank of a job.
  struct Process {
    std::uint64_t incarnation = 0;  // 0: none has registered yet
    Peer peer = 0;                  // 0: the process is not connected
    bool gone = false;              // whether the process was silent or away for too long, or has left
    bool leaving = false;           // whether the server asks to hand its shards to others
    bool left = false;              // whether the process has said that it ends
    Time heard{};                   // last time that the process was heard
    Time deadline{};                // time at which a process that is not connected is gone
    Time::duration gone_for{};      // for how long the process was gone while another server was heard
    std::uint64_t version = 0;      // version of the newest views that the process has
    std::string address{}, process{};
    // newest: newest protocol version that the process speaks. protocol: version of its connection to the
    // scheduler.
    std::uint16_t newest = 1, protocol = 1;
  };
  struct Job {
    std::uint32_t workers = 0;
    std::map<std::uint32_t, Process> ranks{};
    std::set<std::uint32_t> ended{};  // ranks that have left, or were gone for too long
  };
  // A connection, and which process it belongs to.
  struct Session {
    bool registered = false;
    bool dismissed = false;  // true: the process was told to end, and its later messages are ignored
    Role role = Role::worker;
    std::string job{};
    std::uint32_t number = 0;
    KeyRoles roles{};
  };

  void registration(Peer peer, Session& session, const Registration& registration, Time now);
  static std::string lacking(const Registration& registration, const KeyRoles& roles);
  Refused refusal(const Registration& registration, const KeyRoles& roles, Time now) const;
  std::uint32_t replicas_of(const Registration& registration) const;
  bool others_are_there(const Registration& registration) const;
  Refused refusal_of_server(const Registration& registration) const;
  Refused refusal_of_worker(const Registration& registration, Time now) const;
  Refused taken(const std::string& who, const Process& by) const;
  std::uint32_t number_for(const Registration& registration) const;
  std::uint32_t rank_for(const Registration& registration) const;
  std::uint32_t workers_of(const Registration& registration) const;
  bool is_news(const std::string& refusal, Time now);
  void assign_process(Process& process, Peer peer, const Registration& registration, Time now);
  void heartbeat(Peer peer, const Session& session, const Heartbeat& heartbeat);
  void unregister(Peer peer, const Session& session, Time now);
  Process* process_of(const Session& session);
  void find_gone(Time now);
  void count_time_gone(Time now);
  bool is_gone_now(const Process& process, Time now) const;
  void declare_gone(Process& process, const Session& who, const std::string& why, Time now);
  void forget_workers(Time now);
  void change_views();
  void save();
  void log_change(const ViewChange& change);
  void check_start(Time now);
  void check_end();
  std::string missing(Time now, const std::string* only_job = nullptr) const;
  void find_missing(Time now);
  std::string missing_for(const Session& session) const;  // missing() for a process; names no other jobs
  std::string server_text(std::uint64_t incarnation) const;
  bool goes_in_order(std::uint64_t server) const;
  Status status(const Session& session) const;
  // Calls function(Process&, const Session&) for each process that has registered.
  template <class Function> void for_each_process(const Function& function);
  void send(Peer peer, std::vector<std::byte> message) {
    out_.messages.emplace_back(peer, std::move(message));
  }
  void log(ServerEvent::Level level, const std::string& name,
           std::vector<std::pair<std::string, std::string>> fields);

  const StoreSchedulerOptions options_;
  const Versions versions_;
  SchedulerState state_;
  ViewRules rules_;
  std::vector<Process> servers_;  // indexed by the server's number
  std::map<std::string, Job> jobs_;
  std::unordered_map<Peer, Session> sessions_;
  Time last_tick_;
  const Time ranks_known_;  // until this time, workers that got a rank before a restart may come back
  std::optional<Time> waiting_since_;     // time since which processes wait for the first views
  std::string missing_;                   // text that names the processes that have not registered
  Time missing_at_{};                     // time at which missing_ was made
  std::map<std::string, Time> refusals_;  // time at which each refusal was logged
  bool had_workers_ = false, over_ = false;
  bool unrecovered_ = false;  // whether a copy's loss was logged, but not yet that all copies are complete
  std::uint64_t failovers_ = 0, returned_ = 0, lost_ = 0, refused_ = 0, unauthorized_ = 0;
  SchedulerOutbox out_;
};

}  // namespace heddle::kv_detail
