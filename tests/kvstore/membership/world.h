// A scheduler's core, processes that register with it and the connections between them, in one thread: a test says what
// happens when. What the scheduler has saved survives its crashes.
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

// A process: a member, whose transport is the world's.
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

  // Reports that its backups have all, of the shards whose primary it is, as its views say.
  void report_all();

  World& world;
  kv_detail::Member member;
  const std::uint64_t incarnation;
  bool alive = true, silent = false;
  kv_detail::Views seen;
  std::set<std::uint32_t> held;  // shards whose primary it has been
  bool over = false;
  std::string refusal{};

 private:
  void see(const kv_detail::Views& views);
};

struct Wire {
  Node* node = nullptr;
  kv_detail::Peer at_node = 0, at_scheduler = 0;  // at_scheduler 0: it has not accepted yet
  Packets to_scheduler{}, to_node{};
};

class World {
 public:
  explicit World(StoreSchedulerOptions options);

  Node& start(kv_detail::MemberOptions self);
  Node& start_server(std::uint32_t number, std::uint32_t replicas = 2);
  Node& start_worker(std::uint32_t rank = kv_detail::kAnyNumber, std::uint32_t workers = 0);
  void kill(Node& node);
  void cut(const Node& node);  // its connection
  // The scheduler's outbox, whose views are saved before anything is sent. `stop_before`: the scheduler crashes before it
  // has done so many of these steps.
  void deliver(std::size_t stop_before = ~std::size_t{0});
  void crash();                           // the scheduler, and starts it anew
  bool step(Wire& wire, bool from_node);  // one message; false: there is none
  void step_all();                        // all messages that there are, and those that follow
  void tick(std::chrono::milliseconds time);
  void pass(std::chrono::milliseconds time);  // in small steps, in which everybody does what there is to do
  Node* node_of(std::uint64_t incarnation);
  const kv_detail::ShardView& shard(std::uint32_t number) const { return core->views().shards[number]; }
  bool has_event(const std::string& name) const;

  StoreSchedulerOptions options;
  std::chrono::steady_clock::time_point now{1h};
  std::optional<kv_detail::SchedulerState> disk;
  std::unique_ptr<kv_detail::SchedulerCore> core;
  std::vector<std::unique_ptr<Node>> nodes;
  std::deque<Wire> wires;
  bool up = true;  // the scheduler
  std::vector<ServerEvent> events;
  // Which copy has all: shard, its number, incarnation.
  std::set<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>> reports;
  // Whatever a process was told: by shard and epoch. An epoch is decided once.
  std::map<std::pair<std::uint32_t, std::uint64_t>, kv_detail::ShardView> sent_views;
  std::function<void()> after_each = [] {};  // whatever the core has done
  std::uint64_t last_number = 0;             // of peers and incarnations

 private:
  void connect(Wire& wire);
  void close(Wire& wire);
  void remove_closed();
};

// Checks what a server needs to be true of what it is told: it becomes the primary of a shard only if it begins anew, or has all
// state, which `reports` (shard, number of the copy, incarnation) and `held` say. seen: the newest views so far.
void check_views(const kv_detail::Views& views, std::uint64_t incarnation,
                 const std::set<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>>& reports,
                 kv_detail::Views& seen, std::set<std::uint32_t>& held);

// What does not change within an epoch: learners come and go.
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
