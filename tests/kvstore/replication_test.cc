// Servers with backups on a simulated network: processes die, are silent and come back, connections are cut, and the views
// change at any moment. No answer to a worker is undone, and no two primaries of a shard answer at one time.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>

#include "arguments.h"
#include "simulation/network.h"
#include "simulation/processes.h"
#include "simulation/view_service.h"

using namespace heddle;
using namespace heddle::kv_detail;
using namespace heddle::kv_detail::sim;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

class World {
 public:
  World(std::uint64_t seed, const std::string& consistency);
  void run();
  int kills = 0, changes = 0;

 private:
  struct Server {
    std::string address{};
    std::uint64_t incarnation = 0;
    std::unique_ptr<ServerProcess> process{};
  };
  void start_server(std::uint32_t number);
  void kill(std::uint32_t number);
  bool may_die(std::uint32_t number) const;
  void fault();
  void tell();
  void check_told(const std::string& from, const std::string& to, Peer number, const Message& message);
  bool is_over() const;
  std::string state() const;  // for a message about what does not end

  Engine engine_{{.scheduler = Scheduler::naive}};
  EngineScope scope_{engine_};
  Network network_;
  ViewService service_;
  WorkerProcess::Plan plan_{};
  std::uint64_t faults_;  // of 1000 steps
  std::vector<Server> servers_;
  std::vector<std::unique_ptr<ServerProcess>> dead_;
  std::vector<std::unique_ptr<WorkerProcess>> workers_;
  std::vector<std::uint64_t> told_;  // by shard: the last epoch of which a worker was told something
};

World::World(std::uint64_t seed, const std::string& consistency) : network_(seed), service_(0) {
  const auto servers = static_cast<std::uint32_t>(1 + network_.below(3));
  service_ = ViewService(servers);
  plan_.shards = servers;
  plan_.workers = static_cast<std::uint32_t>(1 + network_.below(3));
  plan_.keys = static_cast<std::uint32_t>(1 + network_.below(4));
  plan_.rounds = static_cast<std::uint32_t>(1 + network_.below(30));
  plan_.consistency = consistency;
  plan_.elements = network_.below(200) == 0 ? 300'000 : network_.below(6);
  if (plan_.elements > 100) plan_.rounds = std::min(plan_.rounds, 5u);
  faults_ = network_.below(3) == 0 ? 0 : network_.below(20);
  told_.resize(servers);
  network_.on_send = [this](const std::string& from, const std::string& to, Peer number,
                            const Message& message) { check_told(from, to, number, message); };
  servers_.resize(servers);
  for (std::uint32_t number = 0; number < servers; ++number) start_server(number);
  for (plan_.rank = 0; plan_.rank < plan_.workers; ++plan_.rank) {
    SimTransport& transport = network_.add("w" + std::to_string(plan_.rank));
    workers_.push_back(std::make_unique<WorkerProcess>(network_, transport, plan_));
    network_.run(transport, *workers_.back(), milliseconds(5));
  }
  tell();
}

void World::start_server(std::uint32_t number) {
  Server& server = servers_[number];
  server.address = "s" + std::to_string(number) + "." + std::to_string(kills);
  server.incarnation = 1 + network_.below(1'000'000'000);
  ServerOptions options;
  options.number = static_cast<int>(number);
  options.servers = static_cast<int>(plan_.shards);
  options.scheduler = "scheduler";
  SimTransport& transport = network_.add(server.address);
  server.process = std::make_unique<ServerProcess>(network_, transport, options, server.incarnation);
  server.process->on_synced = [this](std::uint32_t shard, std::uint64_t epoch) {
    network_.after(milliseconds(1 + network_.below(20)), [this, shard, epoch] {
      service_.synced(shard, epoch);
      tell();
    });
  };
  network_.run(transport, *server.process, milliseconds(20));
  service_.came(number, server.incarnation, server.address);
}

// Each process hears of the views later than the others, or of newer ones first.
void World::tell() {
  while (service_.decide()) ++changes;
  const auto views = std::make_shared<const Views>(service_.views);
  for (std::uint32_t number = 0; number < servers_.size(); ++number) {
    const std::uint64_t incarnation = servers_[number].incarnation;
    network_.after(milliseconds(network_.below(40)), [this, number, incarnation, views] {
      if (servers_[number].incarnation != incarnation || !servers_[number].process) return;
      servers_[number].process->set_views(*views);
      service_.told(incarnation, views->version);
    });
  }
  for (const auto& worker : workers_)
    network_.after(milliseconds(network_.below(40)), [&worker, views] { worker->set_views(*views); });
}

// Each shard has another process with all of its state.
bool World::may_die(std::uint32_t number) const {
  for (std::uint32_t shard = 0; shard < plan_.shards; ++shard) {
    const ShardView& view = service_.views.shards[shard];
    const std::uint64_t me = servers_[number].incarnation;
    if (view.primary != me && (view.backup != me || !(service_.is_synced(shard) || view.handover))) continue;
    const std::uint64_t other = view.primary == me ? view.backup : view.primary;
    const bool is_alive = std::any_of(servers_.begin(), servers_.end(), [&](const Server& server) {
      return server.process && server.incarnation == other;
    });
    if (!is_alive || !(service_.is_synced(shard) || view.handover)) return false;
  }
  return true;
}

void World::kill(std::uint32_t number) {
  Server& server = servers_[number];
  ++kills;
  network_.kill(server.address);
  dead_.push_back(std::move(server.process));
  const std::uint64_t incarnation = server.incarnation;
  network_.after(milliseconds(20 + network_.below(200)), [this, incarnation] {
    service_.is_gone(incarnation, true);
    tell();
  });
  network_.after(milliseconds(250 + network_.below(2000)), [this, number] {
    start_server(number);
    tell();
  });
}

void World::fault() {
  const auto number = static_cast<std::uint32_t>(network_.below(servers_.size()));
  Server& server = servers_[number];
  if (!server.process) return;
  const std::string other = network_.below(2) == 0 ? "w" + std::to_string(network_.below(plan_.workers))
                                                   : servers_[network_.below(servers_.size())].address;
  switch (network_.below(6)) {
    case 0:
      if (may_die(number)) kill(number);
      return;
    case 1:
      return network_.pause(server.address, milliseconds(network_.below(1000)));
    case 2:
      return network_.separate(server.address, other, milliseconds(network_.below(1000)));
    case 3: {  // it only seems to be gone
      if (!may_die(number)) return;
      const std::uint64_t incarnation = server.incarnation;
      service_.is_gone(incarnation, true);
      tell();
      network_.after(milliseconds(network_.below(500)), [this, incarnation] {
        service_.is_gone(incarnation, false);
        tell();
      });
      return;
    }
    default:
      return network_.cut_one();
  }
}

void World::check_told(const std::string& from, const std::string& to, Peer number, const Message& message) {
  if (from[0] != 's' || to[0] != 'w') return;
  const FromServer told = decode_from_server(message.head, message.payload.bytes.size());
  if (const auto* reply = std::get_if<Reply>(&told); reply && reply->number == 0) return;
  const int shard = workers_[static_cast<std::size_t>(std::stoi(to.substr(1)))]->shard_of(number);
  if (shard < 0) return;
  for (const Server& server : servers_) {
    if (server.address != from) continue;
    const std::uint64_t epoch = server.process->node.shard(static_cast<std::uint32_t>(shard)).epoch();
    std::uint64_t& last = told_[static_cast<std::size_t>(shard)];
    CHECK(epoch >= last);
    last = epoch;
  }
}

std::string World::state() const {
  std::string text;
  for (std::uint32_t shard = 0; shard < plan_.shards; ++shard) {
    const ShardView& view = service_.views.shards[shard];
    text += "shard " + std::to_string(shard) + ": epoch " + std::to_string(view.epoch) + " of " +
            std::to_string(view.primary) + ", " + std::to_string(view.backup) +
            (service_.is_synced(shard) ? ", synced; " : "; ");
    for (const Server& server : servers_) {
      if (!server.process) continue;
      const Shard& mine = server.process->node.shard(shard);
      text += server.address + " (" + std::to_string(server.incarnation) + ") has epoch " +
              std::to_string(mine.epoch()) + (mine.is_primary() ? " primary" : "") +
              (mine.is_backup() ? " backup" : "") + (mine.is_synced() ? " synced" : "") + "; ";
    }
  }
  return text;
}

bool World::is_over() const {
  return std::all_of(workers_.begin(), workers_.end(), [](const auto& one) { return one->is_over(); });
}

void World::run() {
  const Clock::time_point end = network_.now + seconds(600);
  Clock::time_point faults_end = network_.now + seconds(20);
  while (!is_over()) {
    if (network_.now > end) {
      for (const auto& worker : workers_) MESSAGE(worker->state());
      MESSAGE(state());
      REQUIRE(network_.now <= end);
    }
    REQUIRE(network_.step());
    if (network_.now < faults_end && network_.below(1000) < faults_) fault();
  }
}

}  // namespace

TEST_CASE("replication: no answer is undone, whatever dies, is silent or is cut") {
  const auto programs = test::argument("programs", test::kSanitized ? 40 : 400);
  const auto first = test::argument("seed", 0);
  int kills = 0, changes = 0;
  for (long long seed = first; seed < first + programs; ++seed) {
    for (const std::string consistency : {"sync", "async", "ssp:1"}) {
      CAPTURE(seed);
      CAPTURE(consistency);
      World world(static_cast<std::uint64_t>(seed), consistency);
      world.run();
      kills += world.kills;
      changes += world.changes;
    }
  }
  MESSAGE(kills << " kills, " << changes << " changes of views");
  if (programs >= 40) CHECK(kills > 0);
}
