#include "membership/world.h"

#include <algorithm>
#include <utility>

#include <doctest/doctest.h>

namespace heddle::test {

using namespace kv_detail;

Node::Node(World& in, MemberOptions self) : world(in), member(*this, self), incarnation(self.incarnation) {
  member.on_views = [this](const Views& views) { see(views); };
  member.on_refused = [this](const std::string& why) { refusal = why; };
  member.on_over = [this] { over = true; };
}

Peer Node::connect(const std::string&) {
  world.wires.push_back({.node = this, .at_node = ++world.last_number});
  return world.wires.back().at_node;
}

void Node::send(Peer peer, Message message) {
  for (Wire& wire : world.wires) {
    if (wire.node == this && wire.at_node == peer) wire.to_scheduler.push_back(std::move(message.head));
  }
}

void check_views(const Views& views, std::uint64_t incarnation,
                 const std::set<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>>& reports,
                 Views& seen, std::set<std::uint32_t>& held) {
  CHECK(views.version > seen.version);
  for (std::uint32_t shard = 0; shard < views.shards.size(); ++shard) {
    const ShardView& now = views.shards[shard];
    const ShardView before = seen.version == 0 ? ShardView{} : seen.shards[shard];
    CHECK(now.epoch >= before.epoch);
    if (now.primary != incarnation || before.primary == incarnation) continue;
    const bool has_all = std::any_of(reports.begin(), reports.end(), [&](const auto& report) {
      return std::get<0>(report) == shard && std::get<2>(report) == incarnation;
    });
    CHECK((now.fresh || has_all || held.contains(shard)));
    held.insert(shard);
  }
  seen = views;
}

void Node::see(const Views& views) { check_views(views, incarnation, world.reports, seen, held); }

// Messages that the node has sent before it closes still arrive, as with TCP.
void Node::close(Peer peer) {
  for (Wire& wire : world.wires) {
    if (wire.at_node == peer) wire.node = nullptr;
  }
}

void Node::report_all() {
  const Views& views = member.views();
  for (std::uint32_t shard = 0; shard < views.shards.size(); ++shard) {
    const ShardView& view = views.shards[shard];
    if (view.primary != incarnation || view.backup == 0) continue;
    world.reports.insert({shard, copy_of(view), view.backup});
    member.report_synced(shard, copy_of(view));
    if (view.learner == 0) continue;
    world.reports.insert({shard, view.learner_copy, view.learner});
    member.report_synced(shard, view.learner_copy);
  }
}

World::World(StoreSchedulerOptions given) : options(std::move(given)) {
  core = std::make_unique<SchedulerCore>(options, SchedulerState{.cluster = ++last_number}, now);
}

Node& World::start(MemberOptions self) {
  self.scheduler = "scheduler:1";
  self.incarnation = 1000 + ++last_number;
  nodes.push_back(std::make_unique<Node>(*this, std::move(self)));
  return *nodes.back();
}

Node& World::start_server(std::uint32_t number, std::uint32_t replicas) {
  return start({.role = Role::server,
                .number = number,
                .replicas = replicas,
                .address = "server-" + std::to_string(last_number) + ":1"});
}

Node& World::start_worker(std::uint32_t rank, std::uint32_t workers) {
  return start({.role = Role::worker, .number = rank, .workers = workers, .job = "job"});
}

void World::kill(Node& node) {
  cut(node);
  node.alive = false;
}

void World::cut(const Node& node) {
  for (Wire& wire : wires) {
    if (wire.node == &node) close(wire);
  }
  remove_closed();
}

void World::close(Wire& wire) {
  if (wire.at_scheduler != 0 && up) core->disconnected(wire.at_scheduler, "cut", now);
  if (wire.node && wire.node->alive) wire.node->member.disconnected(wire.at_node, "cut", now);
  wire = {};
  after_each();
}

void World::remove_closed() {
  std::erase_if(wires, [](const Wire& wire) { return wire.at_node == 0; });
}

void World::connect(Wire& wire) {
  wire.at_scheduler = ++last_number;
  core->connected(wire.at_scheduler);
  if (wire.node) wire.node->member.connected(wire.at_node, now);
}

void World::deliver(std::size_t stop_before) {
  std::size_t steps = 0;
  const auto crashes = [&] { return steps++ >= stop_before; };
  SchedulerOutbox outbox = core->take_outbox();
  for (ServerEvent& event : outbox.events) events.push_back(std::move(event));
  if (outbox.save) {
    if (crashes()) return crash();
    CHECK(outbox.save->views == core->views());
    disk = std::move(outbox.save);
  }
  for (auto& [peer, message] : outbox.messages) {
    if (crashes()) return crash();
    if (const auto sent = decode_from_scheduler(message); const auto* views = std::get_if<Views>(&sent)) {
      REQUIRE(disk);
      CHECK(views->version <= disk->views.version);
      if (views->version == disk->views.version) CHECK(disk->views == *views);
      for (std::uint32_t shard = 0; shard < views->shards.size(); ++shard) {
        const ShardView view = without_learner(views->shards[shard]);
        CHECK(sent_views.try_emplace({shard, view.epoch}, view).first->second == view);
      }
    }
    for (Wire& wire : wires) {
      if (wire.at_scheduler == peer) wire.to_node.push_back(std::move(message));
    }
  }
  for (const Peer peer : outbox.closed) {
    for (Wire& wire : wires) {
      if (wire.at_scheduler != peer) continue;
      wire.at_scheduler = 0;  // the scheduler itself closes the connection, so its core gets no event
      close(wire);
    }
  }
  remove_closed();
}

void World::crash() {
  up = false;
  for (Wire& wire : wires) close(wire);
  remove_closed();
  up = true;
  core =
      std::make_unique<SchedulerCore>(options, disk.value_or(SchedulerState{.cluster = ++last_number}), now);
  after_each();
}

bool World::step(Wire& wire, bool from_node) {
  if (wire.at_node == 0) return false;
  if (wire.at_scheduler == 0) {
    if (wire.node && wire.node->silent) return false;
    connect(wire);
  } else if (from_node) {
    if (wire.to_scheduler.empty()) {
      if (!wire.node) close(wire);
      return false;
    }
    const std::vector<std::byte> message = std::move(wire.to_scheduler.front());
    wire.to_scheduler.pop_front();
    try {
      core->received(wire.at_scheduler, message, now);
    } catch (const MalformedMessage&) {  // expected from a process that was declared lost
      close(wire);
    }
  } else {
    if (wire.to_node.empty() || !wire.node || wire.node->silent) return false;
    const std::vector<std::byte> message = std::move(wire.to_node.front());
    wire.to_node.pop_front();
    wire.node->member.received(wire.at_node, message, now);
  }
  after_each();
  return true;
}

void World::step_all() {
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t i = 0; i < wires.size(); ++i) {
      for (const bool from_node : {true, false}) moved = step(wires[i], from_node) || moved;
    }
    remove_closed();
    deliver();
  }
}

void World::tick(std::chrono::milliseconds time) {
  now += time;
  core->tick(now);
  after_each();
}

void World::pass(std::chrono::milliseconds time) {
  const auto end = now + time;
  while (now < end) {
    for (const auto& node : nodes) {
      if (node->alive && !node->silent) node->member.tick(now);
    }
    step_all();
    tick(10ms);
    step_all();
  }
}

Node* World::node_of(std::uint64_t incarnation) {
  for (const auto& node : nodes) {
    if (node->incarnation == incarnation) return node.get();
  }
  return nullptr;
}

bool World::has_event(const std::string& name) const {
  return std::any_of(events.begin(), events.end(), [&](const ServerEvent& one) { return one.name == name; });
}

}  // namespace heddle::test
