// Several schedulers elect a leader in a store, where servers look it up, on one thread in an order
// determined by a seed. Requests to the store are lost, late or unanswered; schedulers crash, hang, have
// stopped clocks and lose their leases; servers die.
#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <tuple>

#include <doctest/doctest.h>

#include "arguments.h"
#include "membership/elected_state_store.h"
#include "membership/leading_scheduler.h"
#include "membership/member.h"
#include "membership/shared_store.h"
#include "membership/world.h"

using namespace heddle;
using namespace heddle::kv_detail;
using namespace heddle::test;
using namespace std::chrono_literals;

namespace {

using Packets = std::deque<std::vector<std::byte>>;

class Machine;  // the simulated machine, defined below, which owns and runs all processes

class ServerProcess final : public Transport, public SchedulerFinder {
 public:
  ServerProcess(Machine& in, std::uint32_t number, std::uint64_t self);

  std::string listen(const std::string&) override { return ""; }
  Peer connect(const std::string& address) override;
  void send(Peer peer, Message message) override;
  std::size_t queued(Peer) const override { return 0; }
  void close(Peer peer) override;
  void poll(std::chrono::microseconds) override {}
  void wake() noexcept override {}

  void look() override;
  std::optional<SchedulerFound> answer() override { return found_; }

  void see(const Views& views);
  void report_all();

  Machine& machine;
  const std::uint64_t incarnation;
  Member member;
  std::set<std::uint32_t> held;  // shards of which this process has been the primary
  Views seen;
  bool alive = true;

 private:
  std::optional<SchedulerFound> found_;
};

struct Scheduler {
  Scheduler(Machine& in, std::size_t number);
  std::string address;
  std::unique_ptr<StoreLink> link;
  std::unique_ptr<ElectedStateStore> keeper;
  std::unique_ptr<LeadingScheduler> scheduler;
  bool cut_off = false;  // whether the scheduler cannot reach the store
  bool hangs = false;    // whether the thread that waits for the store's answers is blocked
  // The time at which the scheduler's clock has stopped; empty: the clock runs.
  std::optional<SharedStore::Time> stopped;
  SharedStore::Time now(const SharedStore& store) const { return stopped.value_or(store.now); }
};

struct Wire {
  ServerProcess* server = nullptr;
  std::size_t scheduler = 0;
  // The connection's peer numbers; at_scheduler is 0 until the scheduler has accepted it.
  Peer at_server = 0, at_scheduler = 0;
  Packets to_scheduler{}, to_server{};
};

class Machine {
 public:
  Machine(std::uint64_t seed, std::uint32_t servers, std::size_t count)
      : random(seed), options({.servers = static_cast<int>(servers)}) {
    for (std::size_t i = 0; i < count; ++i) schedulers.push_back(std::make_unique<Scheduler>(*this, i));
    for (std::uint32_t number = 0; number < servers; ++number) start_server(number);
  }

  std::uint32_t pick(std::uint64_t count) { return static_cast<std::uint32_t>(random() % count); }

  void start_server(std::uint32_t number) {
    processes.push_back(std::make_unique<ServerProcess>(*this, number, 1000 + ++last_number));
    latest.resize(static_cast<std::size_t>(options.servers));
    latest[number] = processes.back().get();
  }

  Fate fate(const Scheduler& scheduler) {
    if (scheduler.cut_off) return Fate::lost;
    const std::uint32_t what = faults ? pick(20) : 19;
    return what == 0 ? Fate::lost : what == 1 ? Fate::unanswered : what == 2 ? Fate::late : Fate::done;
  }

  // One pass of the scheduler's loop: follows the term, ticks, sends messages.
  void act(std::size_t number) {
    Scheduler& one = *schedulers[number];
    const auto now = one.now(store);
    const bool led = one.scheduler->core() != nullptr;
    close_all(number, one.scheduler->follow(*one.keeper, now));
    if (!led && one.scheduler->core()) CHECK(one.scheduler->core()->views().version >= newest_sent);
    if (one.scheduler->core()) one.scheduler->core()->tick(now);
    deliver(number);
  }

  void deliver(std::size_t number) {
    Scheduler& one = *schedulers[number];
    for (SchedulerOutbox& outbox : one.scheduler->deliver(*one.keeper)) {
      for (auto& [peer, message] : outbox.messages) send(number, peer, std::move(message));
      close_all(number, outbox.closed);
    }
  }

  // Passes on a scheduler's message. Checks that views are saved before any process gets them, and never
  // contradict views sent earlier.
  void send(std::size_t number, Peer peer, std::vector<std::byte> message) {
    const FromScheduler sent = decode_from_scheduler(message);
    if (const auto* views = std::get_if<Views>(&sent)) {
      CHECK(is_saved(*views));
      CHECK(sent_views.try_emplace(views->version, *views).first->second == *views);
      newest_sent = std::max(newest_sent, views->version);
      for (std::uint32_t shard = 0; shard < views->shards.size(); ++shard) {
        const ShardView view = test::without_learner(views->shards[shard]);
        CHECK(sent_shards.try_emplace({shard, view.epoch}, view).first->second == view);
      }
    }
    for (Wire& wire : wires) {
      if (wire.scheduler == number && wire.at_scheduler == peer) wire.to_server.push_back(std::move(message));
    }
  }

  // Whether the store has these views or newer ones. Of several changes a scheduler need save only the last.
  bool is_saved(const Views& views) {
    for (; read < store.history.size(); ++read) {
      const auto& [key, value] = store.history[read];
      if (key != state_key("/c")) continue;
      Views one = decode_scheduler_state(std::as_bytes(std::span(value))).views;
      saved[one.version] = std::move(one);
    }
    const auto found = saved.lower_bound(views.version);
    return found != saved.end() && (found->first > views.version || found->second == views);
  }

  void close_all(std::size_t number, const std::vector<Peer>& peers) {
    for (Wire& wire : wires) {
      if (wire.scheduler != number || std::find(peers.begin(), peers.end(), wire.at_scheduler) == peers.end())
        continue;
      wire.at_scheduler = 0;  // the scheduler itself closes the connection, so its core gets no event
      close(wire);
    }
    remove_closed();
  }

  void close(Wire& wire) {
    SchedulerCore* const core = schedulers[wire.scheduler]->scheduler->core();
    if (wire.at_scheduler != 0 && core)
      core->disconnected(wire.at_scheduler, "cut", schedulers[wire.scheduler]->now(store));
    if (wire.server && wire.server->alive) wire.server->member.disconnected(wire.at_server, "cut", store.now);
    wire = {};
  }
  void remove_closed() {
    std::erase_if(wires, [](const Wire& wire) { return wire.at_server == 0; });
  }

  void cut(const ServerProcess& server) {
    for (Wire& wire : wires) {
      if (wire.server == &server) close(wire);
    }
    remove_closed();
  }

  // Kills a scheduler's process and restarts it with a new state in memory.
  void crash(std::size_t number) {
    for (Wire& wire : wires) {
      if (wire.scheduler != number || wire.at_server == 0) continue;
      wire.at_scheduler = 0;
      close(wire);
    }
    remove_closed();
    schedulers[number] = std::make_unique<Scheduler>(*this, number);
  }

  bool step(Wire& wire, bool from_server) {
    if (wire.at_server == 0) return false;
    Scheduler& one = *schedulers[wire.scheduler];
    if (wire.at_scheduler == 0 || !one.scheduler->core()) {
      // StoreScheduler also closes connections while it does not lead
      if (!one.scheduler->core()) return close(wire), true;
      wire.at_scheduler = ++last_number;
      one.scheduler->core()->connected(wire.at_scheduler);
      if (wire.server) wire.server->member.connected(wire.at_server, store.now);
      return true;
    }
    Packets& packets = from_server ? wire.to_scheduler : wire.to_server;
    if (packets.empty()) {
      if (from_server && !wire.server) close(wire);
      return false;
    }
    const std::vector<std::byte> message = std::move(packets.front());
    packets.pop_front();
    if (!from_server) {
      if (wire.server) wire.server->member.received(wire.at_server, message, store.now);
      return true;
    }
    try {
      one.scheduler->core()->received(wire.at_scheduler, message, one.now(store));
    } catch (const MalformedMessage&) {  // expected from a server that was declared lost
      close(wire);
    }
    return true;
  }

  void pass(std::chrono::milliseconds time) {
    for (const auto end = store.now + time; store.now < end; store.now += 20ms) {
      for (std::size_t i = 0; i < schedulers.size(); ++i) {
        if (!schedulers[i]->hangs) schedulers[i]->keeper->step();
        act(i);
      }
      for (const auto& one : processes) {
        if (one->alive) one->member.tick(store.now);
      }
      for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t i = 0; i < wires.size(); ++i) {
          for (const bool from_server : {true, false}) moved = step(wires[i], from_server) || moved;
        }
        remove_closed();
        for (std::size_t i = 0; i < schedulers.size(); ++i) deliver(i);
      }
    }
  }

  std::mt19937_64 random;
  const StoreSchedulerOptions options;
  SharedStore store;
  bool faults = true;
  std::vector<std::unique_ptr<Scheduler>> schedulers;
  std::vector<std::unique_ptr<ServerProcess>> processes;
  std::vector<ServerProcess*> latest;  // the newest process of each server number
  std::deque<Wire> wires;
  std::uint64_t last_number = 0;
  // Complete copies: shard, number of the copy, incarnation of the server that has the copy.
  std::set<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>> reports;
  std::map<std::uint64_t, Views> sent_views;
  std::map<std::pair<std::uint32_t, std::uint64_t>, ShardView> sent_shards;
  std::uint64_t newest_sent = 0;
  std::size_t read = 0;                  // how many entries of the store's history `saved` includes
  std::map<std::uint64_t, Views> saved;  // saved views by their version
};

Scheduler::Scheduler(Machine& in, std::size_t number) : address("scheduler:" + std::to_string(number)) {
  link = std::make_unique<StoreLink>(in.store, [this, &in] { return in.fate(*this); });
  keeper = std::make_unique<ElectedStateStore>(
      *link,
      ElectedOptions{
          .prefix = "/c", .address = address, .servers = static_cast<std::uint32_t>(in.options.servers)},
      [this, &in] { return now(in.store); }, [] {});
  scheduler = std::make_unique<LeadingScheduler>(in.options, [&in] { return ++in.last_number; });
}

MemberOptions member_options(ServerProcess& self, std::uint32_t number, std::uint64_t incarnation) {
  // A shared pointer that owns nothing: `self`, which is the finder, owns the member that uses it.
  return {.finder = std::shared_ptr<SchedulerFinder>(std::shared_ptr<void>(), &self),
          .role = Role::server,
          .number = number,
          .replicas = 2,
          .incarnation = incarnation,
          .address = "server-" + std::to_string(incarnation) + ":1"};
}

ServerProcess::ServerProcess(Machine& in, std::uint32_t number, std::uint64_t self)
    : machine(in), incarnation(self), member(*this, member_options(*this, number, self)) {
  member.on_views = [this](const Views& views) { see(views); };
}

void ServerProcess::look() {
  const auto leader = machine.store.get(leader_key("/c"));
  found_ = leader ? SchedulerFound{leader->value, ""} : SchedulerFound{"", "no scheduler leads"};
}

Peer ServerProcess::connect(const std::string& address) {
  machine.wires.push_back({.server = this,
                           .scheduler = static_cast<std::size_t>(address.back() - '0'),
                           .at_server = ++machine.last_number});
  return machine.wires.back().at_server;
}

void ServerProcess::send(Peer peer, Message message) {
  for (Wire& wire : machine.wires) {
    if (wire.server == this && wire.at_server == peer) wire.to_scheduler.push_back(std::move(message.head));
  }
}

void ServerProcess::close(Peer peer) {
  for (Wire& wire : machine.wires) {
    if (wire.at_server == peer) wire.server = nullptr;
  }
}

void ServerProcess::see(const Views& views) {
  test::check_views(views, incarnation, machine.reports, seen, held);
}

void ServerProcess::report_all() {
  const Views views = member.views();
  for (std::uint32_t shard = 0; shard < views.shards.size(); ++shard) {
    const ShardView& view = views.shards[shard];
    if (view.primary != incarnation || view.backup == 0) continue;
    machine.reports.insert({shard, copy_of(view), view.backup});
    member.report_synced(shard, copy_of(view));
    if (view.learner == 0) continue;
    machine.reports.insert({shard, view.learner_copy, view.learner});
    member.report_synced(shard, view.learner_copy);
  }
}

class Program {
 public:
  explicit Program(std::uint64_t seed) : machine_(seed, 2 + seed % 2, 2 + seed / 2 % 2) {}

  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
    heal();
    const auto leader = std::find_if(machine_.schedulers.begin(), machine_.schedulers.end(),
                                     [](const auto& one) { return one->scheduler->core(); });
    REQUIRE(leader != machine_.schedulers.end());
    CHECK(std::count_if(leader, machine_.schedulers.end(),
                        [](const auto& one) { return one->scheduler->core(); }) == 1);
    const Views& views = (*leader)->scheduler->core()->views();
    REQUIRE(views.version > 0);
    for (std::uint32_t shard = 0; shard < views.shards.size(); ++shard) {
      const ShardView& view = views.shards[shard];
      // The shard has returned to the server with the shard's number.
      CHECK(view.primary == machine_.latest[shard]->incarnation);
      CHECK(view.backup != 0);
    }
    for (const ServerProcess* const one : machine_.latest) CHECK(one->member.views() == views);
  }
  std::size_t leaders() const {
    std::size_t count = 0;
    for (const auto& [key, value] : machine_.store.history) count += key == leader_key("/c");
    return count;
  }

 private:
  std::uint32_t pick(std::uint64_t count) { return machine_.pick(count); }

  void step() {
    ServerProcess& server = *machine_.latest[pick(machine_.latest.size())];
    const std::size_t number = pick(machine_.schedulers.size());
    Scheduler& scheduler = *machine_.schedulers[number];
    const std::uint32_t what = pick(100);
    if (what < 45) {
      if (!machine_.wires.empty()) machine_.step(machine_.wires[pick(machine_.wires.size())], pick(2) == 0);
      machine_.remove_closed();
    } else if (what < 58) {
      if (server.alive) server.member.tick(machine_.store.now);
    } else if (what < 68) {
      machine_.act(number);
    } else if (what < 78) {
      if (!scheduler.hangs) scheduler.keeper->step();
    } else if (what < 84) {
      machine_.store.now += std::chrono::milliseconds(pick(20) == 0 ? pick(4000) : pick(60));
    } else if (what < 88) {
      if (server.alive) server.report_all();
    } else if (what < 91) {
      arrive();
    } else if (what < 92) {
      machine_.cut(server);
    } else if (what < 93) {
      machine_.cut(server);
      server.alive = false;
      if (pick(3) > 0) machine_.start_server(server.member.self().number);
    } else if (what < 94) {
      machine_.crash(number);
    } else if (what < 95) {
      scheduler.cut_off = !scheduler.cut_off;
    } else if (what < 96) {
      scheduler.hangs = !scheduler.hangs;
    } else if (what < 97) {
      scheduler.stopped = scheduler.stopped ? std::nullopt : std::optional(machine_.store.now);
    } else {
      machine_.pass(std::chrono::milliseconds(pick(500)));
    }
  }

  // Lets a random delayed request arrive at the store.
  void arrive() {
    auto& late = machine_.store.late;
    if (late.empty()) return;
    const auto one = late.begin() + pick(late.size());
    const auto request = std::move(*one);
    late.erase(one);
    request();
  }

  void heal() {
    machine_.faults = false;
    for (const auto& one : machine_.schedulers) {
      one->cut_off = one->hangs = false;
      one->stopped.reset();
    }
    for (int i = 0; i < 200; ++i) {
      arrive();
      for (std::uint32_t number = 0; number < machine_.latest.size(); ++number) {
        const ServerProcess& one = *machine_.latest[number];
        // A member may be refused for one reason only: another process has its number.
        if (one.member.is_refused()) CHECK(one.member.why().find("is there already") != std::string::npos);
        if (!one.alive || one.member.is_refused()) machine_.start_server(number);
      }
      machine_.pass(200ms);
      for (const auto& one : machine_.processes) {
        if (one->alive) one->report_all();
      }
    }
  }

  Machine machine_;
};

}  // namespace

TEST_CASE("leaders: whoever leads, and whatever the store loses, no two views contradict each other") {
  const auto programs = test::argument("programs", test::kSanitized ? 20 : 400);
  std::size_t leaders = 0;
  for (long long seed = test::argument("first", 0); seed < programs; ++seed) {
    CAPTURE(seed);
    Program program(static_cast<std::uint64_t>(seed));
    program.run(600);
    leaders += program.leaders();
  }
  CHECK(leaders > 2 * static_cast<std::size_t>(programs - test::argument("first", 0)));
}
