// A scheduler's core, the processes that register with it, and their connections, on one thread in an order
// that the test chooses. The scheduler's saved state survives its crashes.
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

// A simulated process: a Member whose messages go through the World.
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

  // Reports to the scheduler complete copies of all shards whose primary this process is, according to its
  // views.
  void report_all();

  World& world;
  kv_detail::Member member;
  const std::uint64_t incarnation;
  bool alive = true, silent = false;
  kv_detail::Views seen;
  std::set<std::uint32_t> held;  // shards of which this process has been the primary
  bool over = false;
  std::string refusal{};

 private:
  void see(const kv_detail::Views& views);
};

struct Wire {
  Node* node = nullptr;
  // The connection's peer numbers. at_scheduler is 0 until the scheduler has accepted it.
  kv_detail::Peer at_node = 0, at_scheduler = 0;
  Packets to_scheduler{}, to_node{};
};

class World {
 public:
  explicit World(StoreSchedulerOptions options);

  Node& start(kv_detail::MemberOptions self);
  Node& start_server(std::uint32_t number, std::uint32_t replicas = 2);
  Node& start_worker(std::uint32_t rank = kv_detail::kAnyNumber, std::uint32_t workers = 0);
  void kill(Node& node);
  void cut(const Node& node);  // cuts the node's connection
  // Handles the scheduler's outbox: saves the state, then sends messages. The scheduler crashes before its
  // step number `stop_before`.
  void deliver(std::size_t stop_before = ~std::size_t{0});
  void crash();  // crashes and restarts the scheduler
  // Delivers one message to or from the node; returns false if there is none.
  bool step(Wire& wire, bool from_node);
  void step_all();  // delivers messages until there are none
  void tick(std::chrono::milliseconds time);
  // Advances the clock in small steps, in each of which all processes run.
  void pass(std::chrono::milliseconds time);
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
  // Reported complete copies: shard, number of the copy, incarnation of the server that has it.
  std::set<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>> reports;
  // Views of shards that were sent to any process, by shard and epoch. All views of one epoch are equal.
  std::map<std::pair<std::uint32_t, std::uint64_t>, kv_detail::ShardView> sent_views;
  std::function<void()> after_each = [] {};  // called after each step of the core
  std::uint64_t last_number = 0;             // the last number used as a peer's number or as an incarnation

 private:
  void connect(Wire& wire);
  void close(Wire& wire);
  void remove_closed();
};

// Checks a server's new views: the server becomes a shard's primary only if the shard is new and empty, if it
// has held the shard before (`held`), or if its copy is complete (`reports`: shard, number of the copy,
// incarnation). `seen`: the newest views so far, which the function updates.
void check_views(const kv_detail::Views& views, std::uint64_t incarnation,
                 const std::set<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>>& reports,
                 kv_detail::Views& seen, std::set<std::uint32_t>& held);

// The view without its learner. The rest is constant within an epoch.
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
