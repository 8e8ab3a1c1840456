// A scheduler's core, registering processes and their connections, on one thread in an order that the test
// chooses. The saved state survives the scheduler's crashes.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <heddle/store_scheduler.h>

#include "membership/member.h"
#include "membership/scheduler_core.h"

namespace heddle::test {

using namespace std::chrono_literals;
using Packets = std::deque<std::vector<std::byte>>;

class World;

// A process: a member that communicates through the world.
class Node final : public kv_detail::Transport {
 public:
  Node(World& world, kv_detail::MemberOptions self);

  std::string listen(const std::string&) override { return ""; }
  kv_detail::Peer connect(const std::string& address) override;
  void send(kv_detail::Peer peer, kv_detail::Message message) override;
  std::size_t queued(kv_detail::Peer) const override { return 0; }
  void close(kv_detail::Peer peer) override;
  void poll(std::chrono::microseconds) override {}
  void wake() noexcept override {}

  // Reports complete copies of all shards whose primary this process is, according to its views.
  void report_all();

  World& world;
  kv_detail::Member member;
  const std::uint64_t incarnation;
  bool alive = true, silent = false;
  kv_detail::Views seen;
  std::set<std::uint32_t> held;  // shards whose primary this process has been
  bool over = false;
  std::string refusal{};

 private:
  void see(const kv_detail::Views& views);
};

struct Wire {
  Node* node = nullptr;
  kv_detail::Peer at_node = 0, at_scheduler = 0;  // at_scheduler 0: not accepted yet
  Packets to_scheduler{}, to_node{};
};

class World {
 public:
  explicit World(StoreSchedulerOptions options);

  Node& start(kv_detail::MemberOptions self);
  Node& start_server(std::uint32_t number, std::uint32_t replicas = 2);
  Node& start_worker(std::uint32_t rank = kv_detail::kAnyNumber, std::uint32_t workers = 0);
  void kill(Node& node);
  void cut(const Node& node);  // the node's connection
  // Handles the scheduler's outbox: saves views, then sends messages. The scheduler crashes before step
  // number `stop_before`.
  void deliver(std::size_t stop_before = ~std::size_t{0});
  void crash();                           // crashes and restarts the scheduler
  bool step(Wire& wire, bool from_node);  // delivers one message; false: there is none
  void step_all();                        // delivers messages until there are none
  void tick(std::chrono::milliseconds time);
  void pass(std::chrono::milliseconds time);  // advances the clock in small steps, in which all processes run
  Node* node_of(std::uint64_t incarnation);
  const kv_detail::ShardView& shard(std::uint32_t number) const { return core->views().shards[number]; }
  bool has_event(const std::string& name) const;

  StoreSchedulerOptions options;
  std::chrono::steady_clock::time_point now{1h};
  std::optional<kv_detail::SchedulerState> disk;
  std::unique_ptr<kv_detail::SchedulerCore> core;
  std::vector<std::unique_ptr<Node>> nodes;
  std::deque<Wire> wires;
  bool up = true;  // whether the scheduler runs
  std::vector<ServerEvent> events;
  // Complete copies: shard, number of the copy, incarnation.
  std::set<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>> reports;
  // Views sent to any process, by shard and epoch; those of one epoch are always equal.
  std::map<std::pair<std::uint32_t, std::uint64_t>, kv_detail::ShardView> sent_views;
  std::function<void()> after_each = [] {};  // called after each step of the core
  std::uint64_t last_number = 0;             // the last number given to a peer or an incarnation

 private:
  void connect(Wire& wire);
  void close(Wire& wire);
  void remove_closed();
};

// Checks a server's views: it becomes the primary only of a new, empty shard, or with a complete copy, as
// `reports` (shard, number of the copy, incarnation) and `held` say. seen: the newest views so far.
void check_views(const kv_detail::Views& views, std::uint64_t incarnation,
                 const std::set<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>>& reports,
                 kv_detail::Views& seen, std::set<std::uint32_t>& held);

// The part of a view that is constant within an epoch: learners may change.
inline kv_detail::ShardView without_learner(kv_detail::ShardView view) {
  view.learner = view.learner_copy = 0;
  return view;
}

inline std::string field(const ServerEvent& event, const std::string& name) {
  for (const auto& [key, value] : event.fields) {
    if (key == name) return value;
  }
  return "";
}

}  // namespace heddle::test
