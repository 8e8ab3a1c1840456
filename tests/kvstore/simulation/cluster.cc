#include "simulation/cluster.h"

#include <algorithm>
#include <utility>

#include <doctest/doctest.h>

namespace heddle::kv_detail::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Beginnings of the addresses of processes. The first letter tells the kind of process.
const std::string kScheduler = "Scheduler", kServers = "s", kWorkers = "w";
constexpr seconds kFaultsEnd{30}, kLongest{600};
// Fault-free time between the end of a fault and the beginning of the next one.
constexpr milliseconds kBreath{100};

std::string text_of(const ServerEvent& event) {
  std::string text = event.name;
  for (const auto& [name, value] : event.fields) text += " " + name + "=" + value;
  return text;
}

std::string seconds_text(Clock::duration time) {
  return std::to_string(std::chrono::duration<double>(time).count()) + " s";
}

}  // namespace

void Cluster::trace(const std::string& text) const {
  if (plan_.trace) MESSAGE(seconds_text(network_.now.time_since_epoch()) << ": " << text);
}

Cluster::Cluster(const Plan& plan, std::uint64_t seed)
    : plan_(plan), network_(seed), ledger_(plan_), servers_(plan_.servers), workers_(plan_.workers) {
  network_.on_send = [this](const std::string& from, const std::string& to, Peer number,
                            const Message& message) { check_answer(from, to, number, message); };
  scheduler_options_.servers = static_cast<int>(plan_.servers);
  scheduler_options_.lost_after = plan_.lost_after;
  start_scheduler();
  for (std::size_t slot = 0; slot < servers_.size(); ++slot) start_server(slot);
  for (std::uint32_t rank = 0; rank < plan_.workers; ++rank) start_worker(rank);
}

void Cluster::start_scheduler() {
  SimTransport& transport = network_.add(kScheduler);
  scheduler_options_.protocol = some_protocol();
  scheduler_ = std::make_unique<SchedulerProcess>(network_, transport, scheduler_options_, file_, checks_,
                                                  counts.decisions);
  scheduler_->dies_once_in = plan_.fault_pause.count() > 0 && !plan_.one_fault_at_a_time ? 20 : 0;
  scheduler_->on_death = [this] { network_.after({}, [this] { kill_scheduler(some_time()); }); };
  scheduler_->on_event = [this](const ServerEvent& event) {
    if (plan_.trace) trace(text_of(event));
  };
  network_.run(transport, *scheduler_, kSchedulerTick);
}

void Cluster::start_server(std::size_t slot) {
  Server& server = servers_[slot];
  server.address = kServers + std::to_string(slot) + "." + std::to_string(++started_);
  const bool any_number = started_ > static_cast<int>(plan_.servers) && below(4) == 0;
  ServerOptions options;
  options.number = any_number ? -1 : static_cast<int>(slot);
  options.servers = any_number ? 0 : static_cast<int>(plan_.servers);
  options.replicas = static_cast<int>(plan_.replicas);
  options.scheduler = kScheduler;
  options.worker_timeout = kLongest;
  options.protocol = some_protocol();
  options.keys_at_once = plan_.keys_at_once;
  SimTransport& transport = network_.add(server.address);
  server.process =
      std::make_unique<ServerProcess>(network_, transport, options, 1 + below(1'000'000'000), checks_);
  server.process->on_refused = [this, slot, address = server.address] {
    network_.after({}, [this, slot, address] {
      if (servers_[slot].address == address) kill_server(slot, milliseconds(100));
    });
  };
  network_.run(transport, *server.process, kServerTick);
}

std::string Cluster::rank_address(std::uint32_t rank) { return kWorkers + std::to_string(rank); }

void Cluster::start_worker(std::uint32_t rank) {
  SimTransport& transport = network_.add(rank_address(rank));
  workers_[rank] = std::make_unique<WorkerProcess>(network_, transport, plan_, rank, 1 + below(1'000'000'000),
                                                   versions_up_to(some_protocol()), ledger_, checks_);
  workers_[rank]->on_refused = [this, rank, process = workers_[rank].get()] {
    network_.after({}, [this, rank, process] {
      if (workers_[rank].get() == process) kill_worker(rank, milliseconds(100));
    });
  };
  network_.run(transport, *workers_[rank], kWorkerTick);
}

void Cluster::kill_scheduler(Clock::duration downtime) {
  if (!scheduler_) return;
  ++counts.killed_schedulers;
  network_.kill(kScheduler);
  dead_.push_back(std::move(scheduler_));
  network_.after(downtime, [this] { start_scheduler(); });
}

void Cluster::kill_server(std::size_t slot, Clock::duration downtime) {
  Server& server = servers_[slot];
  if (!server.process) return;
  check_staleness();
  ++counts.killed_servers;
  network_.kill(server.address);
  dead_.push_back(std::move(server.process));
  network_.after(downtime, [this, slot] { start_server(slot); });
}

void Cluster::kill_worker(std::uint32_t rank, Clock::duration downtime) {
  if (!workers_[rank]) return;
  ++counts.killed_workers;
  network_.kill(rank_address(rank));
  dead_.push_back(std::move(workers_[rank]));
  network_.after(downtime, [this, rank] { start_worker(rank); });
}

void Cluster::kill(const std::string& address) {
  const Clock::duration downtime = some_time();
  fault_ends_ = network_.now + downtime;
  trace("kill " + address + " for " + seconds_text(downtime));
  if (address == kScheduler) return kill_scheduler(downtime);
  for (std::size_t slot = 0; slot < servers_.size(); ++slot) {
    if (servers_[slot].address == address) return kill_server(slot, downtime);
  }
  kill_worker(static_cast<std::uint32_t>(std::stoul(address.substr(1))), downtime);
}

std::vector<std::string> Cluster::addresses() const {
  std::vector<std::string> all;
  if (scheduler_) all.push_back(kScheduler);
  for (const Server& server : servers_) {
    if (server.process) all.push_back(server.address);
  }
  for (std::uint32_t rank = 0; rank < plan_.workers; ++rank) {
    if (workers_[rank]) all.push_back(rank_address(rank));
  }
  return all;
}

// A random duration of a fault. A quarter of the durations can be so long that the scheduler declares a
// silent process lost.
Clock::duration Cluster::some_time() { return milliseconds(below(below(4) == 0 ? 6000 : 1000)); }

void Cluster::fault() {
  const std::vector<std::string> all = addresses();
  if (all.empty()) return;
  // Chooses a process, more often a server or the scheduler than a worker.
  std::string who = all[below(all.size())];
  if (who[0] == 'w') who = all[below(all.size())];
  const Clock::duration time = some_time();
  if (below(3) != 0) return befall(who, time);
  const std::string other = below(2) == 0 ? kScheduler : all[below(all.size())];
  if (below(3) == 0 || other == who) {
    ++counts.cuts;
    trace("cut one connection");
    return network_.cut_one();
  }
  ++counts.separated;
  trace("separate " + who + " and " + other + " for " + seconds_text(time));
  fault_ends_ = network_.now + time;
  network_.separate(who, other, time);
}

void Cluster::befall(const std::string& address, Clock::duration time) {
  fault_ends_ = network_.now + time;
  switch (below(7)) {
    case 0:
      ++counts.pauses;
      trace("pause " + address + " for " + seconds_text(time));
      return network_.pause(address, time);
    case 1:
      return cut_off(address, {'S', 's', 'w'}, time);
    case 2:  // workers can still reach the process
      return cut_off(address, {'S', 's'}, time);
    case 3:
      return cut_off_some();
    default:
      return kill(address);
  }
}

// Separates some processes from the scheduler for so long that it declares them lost, while they reach each
// other. With the option lost_after, losing two servers could lose the shards of both, so at most one server
// is separated.
void Cluster::cut_off_some() {
  ++counts.cut_off;
  const Clock::duration time = milliseconds(2500 + below(3500));
  fault_ends_ = network_.now + time;
  const bool any_server = !plan_.one_fault_at_a_time || plan_.lost_after.count() == 0;
  std::vector<std::string> others = addresses();
  std::shuffle(others.begin(), others.end(), network_.random);
  bool has_server = false;
  for (const std::string& other : others) {
    const bool is_server = other[0] == 's';
    if (other == kScheduler || below(2) == 0 || (is_server && has_server && !any_server)) continue;
    has_server = has_server || is_server;
    trace("cut off " + other + " from the scheduler for " + seconds_text(time));
    network_.separate(kScheduler, other, time);
  }
}

// Separates the process from all processes whose addresses begin with one of the letters in `kinds`.
void Cluster::cut_off(const std::string& address, const std::string& kinds, Clock::duration time) {
  ++counts.cut_off;
  trace("cut off " + address + " from " + kinds + " for " + seconds_text(time));
  for (const std::string& other : addresses()) {
    if (other != address && kinds.find(other[0]) != std::string::npos)
      network_.separate(address, other, time);
  }
}

bool Cluster::all_synced() const {
  const SchedulerState& state = checks_.state();
  if (!scheduler_ || state.views != scheduler_->core().views()) return false;
  for (std::uint32_t shard = 0; shard < state.views.shards.size(); ++shard) {
    const ShardView& view = state.views.shards[shard];
    if (state.synced[shard] != view.epoch && !view.handover) return false;
    // A process of an older version knows no learners, so the scheduler still has to replace a backup, and
    // the shard has one copy for a while.
    if (!plan_.mixed_versions) continue;
    const bool near_home =
        std::any_of(state.views.servers.begin(), state.views.servers.end(), [&](const ServerInfo& one) {
          return one.number == shard && (one.incarnation == view.primary || one.incarnation == view.backup);
        });
    if (!near_home) return false;
  }
  return state.views.version > 0;
}

// All processes run, and the scheduler knows two complete copies of each shard.
bool Cluster::is_well() const {
  if (network_.now < fault_ends_ + kBreath || !all_synced()) return false;
  const bool servers = std::all_of(servers_.begin(), servers_.end(), [](const Server& one) {
    return one.process && one.process->member().is_registered();
  });
  const bool workers =
      std::all_of(workers_.begin(), workers_.end(), [](const auto& one) { return one != nullptr; });
  return servers && workers && scheduler_->core().stats().servers_here == static_cast<int>(plan_.servers);
}

// Tells the checks of a server's message to a worker, if the message is about a key.
void Cluster::check_answer(const std::string& from, const std::string& to, Peer number,
                           const Message& message) {
  ++messages_;
  if (from[0] != 's' || to[0] != 'w') return;
  const FromServer told = decode_from_server(message.head, message.payload.bytes.size());
  if (const auto* reply = std::get_if<Reply>(&told);
      reply && (reply->number == 0 || reply->number == kPingNumber))
    return;  // the message is not about a key
  const auto& worker = workers_[std::stoul(to.substr(1))];
  const int shard = worker ? worker->shard_of(number) : -1;
  if (shard < 0) return;
  for (const Server& server : servers_) {
    if (server.address != from || !server.process) continue;
    const auto of = static_cast<std::uint32_t>(shard);
    checks_.answered(from, of, server.process->node().shard(of).epoch());
  }
}

void Cluster::check_staleness() const {
  if (!plan_.consistency.starts_with("ssp:")) return;
  for (const Server& server : servers_) {
    if (server.process)
      CHECK(server.process->node().stats(network_.now).worst_staleness <=
            std::stoll(plan_.consistency.substr(4)));
  }
}

bool Cluster::is_lost() const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const auto& one) { return one && one->has_lost(); });
}

void Cluster::step() {
  REQUIRE(network_.step());
  const bool faults = plan_.fault_pause.count() > 0 && network_.now.time_since_epoch() < kFaultsEnd;
  if (!faults) return;
  // A fault comes at a random time, and often soon after a decision of the scheduler.
  const std::uint64_t version = checks_.state().views.version;
  if (std::exchange(last_version_, version) != version && below(3) == 0)
    next_fault_ = network_.now + std::chrono::microseconds(below(30'000));
  if (network_.now < next_fault_) return;
  next_fault_ = network_.now + milliseconds(below(2 * static_cast<std::uint64_t>(plan_.fault_pause.count())));
  if (!plan_.one_fault_at_a_time || is_well()) fault();
}

void Cluster::pass(Clock::duration time) {
  const Clock::time_point end = network_.now + time;
  while (network_.now < end) step();
}

std::string Cluster::state() const {
  const Views& views = checks_.state().views;
  std::string text = "version " + std::to_string(views.version) + (scheduler_ ? "" : ", no scheduler");
  for (std::uint32_t shard = 0; shard < views.shards.size(); ++shard) {
    const ShardView& view = views.shards[shard];
    text += "; shard " + std::to_string(shard) + ": epoch " + std::to_string(view.epoch) + " of " +
            std::to_string(view.primary) + ", " + std::to_string(view.backup) +
            (checks_.state().synced[shard] == view.epoch ? ", synced" : "") +
            (view.handover ? ", handover" : "");
    for (const Server& server : servers_) {
      if (!server.process || shard >= server.process->node().stats(network_.now).shards.size()) continue;
      const Shard& mine = server.process->node().shard(shard);
      text += "; " + server.address + " (" + std::to_string(server.process->node().incarnation()) +
              ") has epoch " + std::to_string(mine.epoch()) + (mine.is_primary() ? " primary" : "") +
              (mine.is_backup() ? " backup" : "") + (mine.is_synced() ? " synced" : "") +
              (server.process->member().is_registered() ? "" : " " + server.process->member().why());
    }
  }
  for (const auto& worker : workers_) text += worker ? "\n" + worker->state() : "\na dead worker";
  return text;
}

void Cluster::run() {
  const auto every = [this](auto is) {
    return std::all_of(workers_.begin(), workers_.end(), [&](const auto& one) { return one && is(*one); });
  };
  const auto run_until = [&](auto done) {
    while (!done() && !is_lost()) {
      if (network_.now.time_since_epoch() > kLongest) {
        MESSAGE(state());
        REQUIRE(network_.now.time_since_epoch() <= kLongest);
      }
      step();
    }
  };
  run_until([&] { return every([](const WorkerProcess& one) { return one.is_over(); }); });
  run_until([&] {
    for (const auto& worker : workers_) {
      if (worker) worker->pull_all();
    }
    return every([](const WorkerProcess& one) { return one.has_pulled_all(); });
  });
  check_staleness();
}

}  // namespace heddle::kv_detail::sim
