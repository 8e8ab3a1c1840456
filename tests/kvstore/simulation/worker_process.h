// A worker as a process on a simulated network. In each of `rounds` rounds it pushes to its keys (values,
// lists and rows), and pulls them at once. The ledger checks what it pulls.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "membership/member.h"
#include "simulation/ledger.h"
#include "simulation/network.h"
#include "simulation/plan.h"
#include "simulation/view_checks.h"
#include "wire/messages.h"

namespace heddle::kv_detail::sim {

constexpr std::chrono::milliseconds kWorkerTick{20};

class WorkerProcess final : public Process {
 public:
  WorkerProcess(Network& network, SimTransport& transport, const Plan& plan, std::uint32_t rank,
                std::uint64_t incarnation, Versions versions, Ledger& ledger, ViewChecks& checks);

  void tick() override;
  void connected(Peer peer, const std::string& key) override;
  void disconnected(Peer peer, const std::string& why) override;
  std::span<std::byte> memory_for(Peer, std::span<const std::byte>, std::size_t) override { return {}; }
  void received(Peer peer, std::span<const std::byte> head, std::span<std::byte> payload) override;

  bool is_over() const;  // whether all of the worker's pushes are acknowledged
  void pull_all();       // pulls all keys a last time; called when the pushes of all workers are acknowledged
  bool has_pulled_all() const { return last_pulls_ == plan_.groups.size(); }
  bool has_lost() const { return lost_; }       // whether the worker knows that a server's state was lost
  bool is_at_work() const { return working_; }  // whether all keys are initialised
  std::string state() const;                    // what the worker waits for, for the message of a timeout
  // The shard whose primary the connection leads to; -1: the connection is to no primary.
  int shard_of(Peer peer) const;
  std::function<void()> on_refused{};  // called if the scheduler refuses the worker for good

 private:
  using Bytes = std::vector<std::byte>;
  using Done = std::function<void(const Reply&, const Bytes&)>;
  struct Call {
    Bytes head, payload, value{};
    Done done;
  };
  struct Link {
    std::string address{};
    Peer peer = 0;
    bool greeted = false;
    Clock::time_point next_try{}, next_ping{};
    std::uint64_t last_number = 0;
    std::map<std::uint64_t, Call> calls{};  // the link's requests without a reply, by number
  };
  struct Key {
    std::uint32_t number = 0;
    std::uint64_t clock = 0;
  };
  struct Group {
    std::size_t ready = 0;      // number of the group's keys that are initialised
    std::uint64_t waiting = 0;  // number of the group's pushes and pulls without a reply
    bool over = false;
  };
  using Keys = std::vector<std::uint32_t>;

  void set_views(const Views& views);
  Link* link_of(Peer peer);
  void drop(Link& link);
  void welcomed(Link& link, const Welcome& welcome);
  void ask(std::uint32_t shard, Request request, Bytes payload, Done done);
  void send(Link& link, const Call& call);
  void init_all();
  void init(std::size_t group, std::uint32_t key);
  void next_round(std::size_t group);
  void push(std::size_t group, const Keys& keys);
  void push_rows(std::size_t group, std::uint32_t key);
  void pull(std::size_t group, bool last);
  void pull_rows(std::size_t group, std::uint32_t key, bool last);
  void acknowledged(std::size_t group, const Keys& keys, std::uint64_t clock);
  void check(const std::vector<Ledger::Pull>& pulls, const Bytes& value);
  void check_rows(const Ledger::Pull& pull, const std::vector<std::int64_t>& rows, const Bytes& value);
  void pulled(std::size_t group, bool last);
  void go_on(std::size_t group);
  const KeyPlan& plan_of(std::uint32_t key) const { return plan_.keys[key]; }
  std::uint64_t bytes_of(std::uint32_t key) const;

  Network& network_;
  SimTransport& transport_;
  const Plan& plan_;
  const std::uint32_t rank_;
  const std::uint64_t incarnation_;
  const Versions versions_;
  Ledger& ledger_;
  ViewChecks& checks_;
  Member member_;
  Views seen_{};
  std::vector<Link> links_;  // connections to primaries, by shard
  std::vector<Key> keys_;
  std::vector<Group> groups_;
  std::vector<std::pair<Clock::time_point, std::size_t>> pauses_;  // groups that pause, and until when
  std::uint32_t optimizers_ = 0;  // number of shards whose servers have the optimizer
  std::size_t inits_ = 0, last_pulls_ = 0;
  bool lost_ = false, working_ = false, pulls_all_ = false;
};

}  // namespace heddle::kv_detail::sim
