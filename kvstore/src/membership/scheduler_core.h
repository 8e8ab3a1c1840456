// What the scheduler does with messages, without threads, clocks, connections and files: it is given what has come and the
// time, and says what to save and to send. So a test can run it in any order and at any speed.
//
// Its owner saves `save` before it sends anything of the same outbox. So the state on disk is never older than any views
// that a process has seen: a scheduler that is started anew decides nothing that contradicts them.
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

struct SchedulerOutbox {
  std::optional<SchedulerState> save;  // first
  std::vector<std::pair<Peer, std::vector<std::byte>>> messages;
  std::vector<Peer> closed;
  std::vector<ServerEvent> events;
};

class SchedulerCore {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `state`: as it was saved, or a new one of a new cluster. Throws InvalidArgument if it is of another number of servers.
  SchedulerCore(const StoreSchedulerOptions& options, SchedulerState state, Time now);

  void connected(Peer peer, KeyRoles roles = comm_detail::kAllRoles);  // roles: of its key
  void disconnected(Peer peer, const std::string& why, Time now);
  void received(Peer peer, std::span<const std::byte> head, Time now);  // throws MalformedMessage
  // Finds out which processes are gone, and changes views. To be called every 20 ms or so, after all messages that have come.
  void tick(Time now);
  // The scheduler was stopped, or busy, for so long: nobody could be heard.
  void paused(Time::duration time);

  SchedulerOutbox take_outbox() { return std::exchange(out_, {}); }
  bool is_over() const { return over_; }  // with `once`: all workers have left, and all were told
  const Views& views() const { return rules_.views(); }
  StoreSchedulerStats stats() const;
  std::vector<Peer> peers() const;

 private:
  // The latest process of a number or rank.
  struct Process {
    std::uint64_t incarnation = 0;  // 0: none has come yet
    Peer peer = 0;                  // 0: not connected
    bool gone = false;              // unless it comes back
    bool leaving = false;           // a server that wants others to have what it has
    bool left = false;              // it has said that it ends
    Time heard{};                   // last
    Time deadline{};                // of one that is not connected: when it is gone
    Time::duration gone_for{};      // while another server was heard
    std::uint64_t version = 0;      // of the newest views that it has
    std::string address{}, process{};
    std::uint16_t newest = 1,
                  protocol = 1;  // that it speaks; that it and the scheduler speak with each other
  };
  struct Job {
    std::uint32_t workers = 0;
    std::map<std::uint32_t, Process> ranks{};
    std::set<std::uint32_t> ended{};  // ranks that have left, or were gone for too long
  };
  // Whom a connection belongs to.
  struct Session {
    bool registered = false;
    bool dismissed = false;  // it was told to end: what it has sent before it has heard that is nothing to us
    Role role = Role::worker;
    std::string job{};
    std::uint32_t number = 0;
    KeyRoles roles{};
  };

  void enlist(Peer peer, Session& session, const Enlist& enlist, Time now);
  Refused refusal(const Enlist& enlist, KeyRoles roles, Time now) const;
  std::uint32_t replicas_of(const Enlist& enlist) const;
  bool others_are_there(const Enlist& enlist) const;
  Refused refusal_of_server(const Enlist& enlist) const;
  Refused refusal_of_worker(const Enlist& enlist, Time now) const;
  Refused taken(const std::string& who, const Process& by) const;
  std::uint32_t number_for(const Enlist& enlist) const;
  std::uint32_t rank_for(const Enlist& enlist) const;
  std::uint32_t workers_of(const Enlist& enlist) const;
  bool is_news(const std::string& refusal, Time now);
  void settle(Process& process, Peer peer, const Enlist& enlist, Time now);
  void heartbeat(Peer peer, const Session& session, const Heartbeat& heartbeat);
  void depart(Peer peer, const Session& session, Time now);
  Process* process_of(const Session& session);
  void find_gone(Time now);
  void count_time_gone(Time now);
  bool is_gone_now(const Process& process, Time now) const;
  void mark_gone(Process& process, const Session& who, const std::string& why, Time now);
  void forget_workers(Time now);
  void change_views();
  void save();
  void log_change(const ViewChange& change);
  void check_start(Time now);
  void check_end();
  std::string missing(Time now) const;
  std::string server_text(std::uint64_t incarnation) const;
  bool goes_in_order(std::uint64_t server) const;
  Status status() const;
  // function(Process&, const Session&) for each that has come.
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
  std::vector<Process> servers_;  // by number
  std::map<std::string, Job> jobs_;
  std::unordered_map<Peer, Session> sessions_;
  Time last_tick_;
  const Time ranks_known_;  // until then workers may come back that have had a rank before this start
  std::optional<Time> waiting_since_;     // for the first views
  std::string missing_;                   // processes that have not come, for those that wait
  std::map<std::string, Time> refusals_;  // when each was logged
  bool had_workers_ = false, over_ = false;
  bool unrecovered_ = false;  // a loss was logged, and not yet that all parts have two copies again
  std::uint64_t failovers_ = 0, handed_back_ = 0, lost_ = 0, refused_ = 0;
  SchedulerOutbox out_;
};

}  // namespace heddle::kv_detail
