#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>

#include <heddle/engine.h>
#include <heddle/server.h>
#include <heddle/store_error.h>

#include "membership/etcd_finder.h"
#include "membership/member.h"
#include "membership/refusal_log.h"
#include "server/replica/keep_alive.h"
#include "server/server_node.h"
#include "transport/address.h"
#include "transport/time_budget.h"
#include "wire/views.h"

namespace heddle {
namespace {

using kv_detail::Clock;
using kv_detail::Peer;

constexpr std::chrono::milliseconds kIdleTick{500};
constexpr std::uint64_t kMessagesBetween = 16;  // number of messages between two calls of keep_alive()
// To collect the state of many keys takes one kPartsOfTime-th of the thread's time, or kCollectAtOnce at once
// after a pause. Between two pieces of the state a server without messages sleeps for kShortSleep.
constexpr int kPartsOfTime = 3;
constexpr std::chrono::microseconds kCollectAtOnce{1000}, kShortSleep{200};
// kFirstComplaint: time until it is logged that the scheduler cannot be reached. kComplaints: time until it
// is logged again.
constexpr std::chrono::seconds kFirstComplaint{5}, kComplaints{60};

kv_detail::TransportOptions transport_options(const ServerOptions& options) {
  kv_detail::TransportOptions result;
  result.kind = options.transport;
  result.keys = options.keys;
  result.encrypt_loopback = options.encrypt_loopback;
  result.max_connections = static_cast<std::size_t>(options.max_connections);
  return result;
}

ServerOptions checked(ServerOptions options) {
  const auto refuse = [](const std::string& why) { throw InvalidArgument("Server: " + why); };
  const bool scheduled = kv_detail::is_scheduled(options);
  if (!options.scheduler.empty())
    kv_detail::parse_address_of_peer(options.scheduler);  // throws InvalidArgument
  if (!options.advertise.empty()) kv_detail::parse_address_of_peer(options.advertise);
  if (!options.etcd.urls.empty()) kv_detail::checked_urls(options.etcd);  // throws InvalidArgument
  if (!options.scheduler.empty() && !options.etcd.urls.empty()) refuse("there are both a scheduler and etcd");
  if (options.servers < (scheduled ? 0 : 1)) refuse("servers is " + std::to_string(options.servers));
  if (options.number < (scheduled ? -1 : 0) || (options.servers > 0 && options.number >= options.servers))
    refuse("number " + std::to_string(options.number) + " of " + std::to_string(options.servers));
  if (options.replicas < 0 || options.replicas > (scheduled ? 2 : 1))
    refuse("replicas is " + std::to_string(options.replicas) +
           ", want 1, 2 with a scheduler, or 0 for what is usual");
  kv_detail::versions_up_to(options.protocol);  // throws InvalidArgument
  if (options.max_connections < 1) refuse("max_connections is " + std::to_string(options.max_connections));
  if (options.worker_timeout.count() <= 0) refuse("worker_timeout is not positive");
  if (options.snapshot_interval.count() <= 0) refuse("snapshot_interval is not positive");
  if (options.keys_at_once < 1) refuse("keys_at_once is " + std::to_string(options.keys_at_once));
  if (options.snapshots_kept < 1) refuse("snapshots_kept is " + std::to_string(options.snapshots_kept));
  return options;
}

}  // namespace

// The engine is a naive one, so updates run on the server's thread.
struct Server::Impl final : kv_detail::Receiver {
  explicit Impl(ServerOptions given)
      : options(checked(std::move(given))),
        transport(kv_detail::make_transport(transport_options(options), *this)),
        address(transport->listen(options.listen)),
        begun(Clock::now()),
        owned(make_node()),
        node(*owned) {
    if (kv_detail::is_scheduled(options)) join();
  }

  std::unique_ptr<kv_detail::ServerNode> make_node() {
    const EngineScope scope(engine);  // values that the node restores belong to this engine
    return std::make_unique<kv_detail::ServerNode>(options, kv_detail::new_incarnation(), *transport, begun);
  }

  std::shared_ptr<kv_detail::SchedulerFinder> finder() const {
    return options.etcd.urls.empty() ? nullptr : std::make_shared<kv_detail::EtcdFinder>(options.etcd);
  }

  void join() {
    member = std::make_unique<kv_detail::Member>(
        *transport,
        kv_detail::MemberOptions{.scheduler = options.scheduler,
                                 .finder = finder(),
                                 .role = kv_detail::Role::server,
                                 .number = static_cast<std::uint32_t>(options.number),  // -1 gives kAnyNumber
                                 .servers = static_cast<std::uint32_t>(options.servers),
                                 .replicas = static_cast<std::uint32_t>(options.replicas),
                                 .incarnation = node.incarnation(),
                                 .address = options.advertise.empty() ? address : options.advertise,
                                 .versions = kv_detail::versions_up_to(options.protocol)});
    member->on_registered = [this](const kv_detail::Registered& told) {
      node.set_secret(told.secret);
      node.set_number(static_cast<int>(told.number), static_cast<int>(told.servers));
    };
    member->on_views = [this](const kv_detail::Views& views) {
      try {
        node.set_views(views, Clock::now());
      } catch (const std::exception&) {  // a shard has no valid snapshot, or memory is lacking: run() ends
        lost = std::current_exception();
        throw;
      }
    };
    // A server that the scheduler refuses goes on if it has views, since workers know where it is.
    member->on_refused = [this](const std::string& why) {
      node.log(ServerEvent::Level::error, "refused", {{"why", why}});
      if (member->views().version == 0) lost = std::make_exception_ptr(StoreError(why));
    };
    member->on_over = [this] { draining.store(true); };
  }

  void tick_member() {
    for (const auto& [shard, epoch] : node.take_synced()) member->report_synced(shard, epoch);
    for (const auto& [shard, epoch] : node.take_lost()) member->report_lost(shard, epoch);
    member->tick(Clock::now());
    log_lost_scheduler(Clock::now());
  }

  // Logs that the scheduler cannot be reached. Without it the server goes on, or waits for its first views.
  void log_lost_scheduler(Clock::time_point now) {
    if (member->is_registered() || member->is_refused()) {
      next_complaint = now + kFirstComplaint;
    } else if (now >= next_complaint) {
      next_complaint = now + kComplaints;
      node.log(ServerEvent::Level::warning,
               member->is_refused_now() ? "scheduler_refuses" : "scheduler_unreachable",
               {{"why", member->why()}});
    }
  }

  bool of_scheduler(Peer peer) const { return member && member->owns(peer); }
  void connected(Peer peer, const std::string& key) override {
    const auto now = Clock::now();
    of_scheduler(peer) ? member->connected(peer, now) : node.connected(peer, key, now);
  }
  void disconnected(Peer peer, const std::string& why) override {
    const auto now = Clock::now();
    of_scheduler(peer) ? member->disconnected(peer, why, now) : node.disconnected(peer, why, now);
  }
  void cannot_connect(Peer peer, const std::string& why) override {
    const auto now = Clock::now();
    of_scheduler(peer) ? member->cannot_connect(peer, why, now) : node.cannot_connect(peer, why, now);
  }
  std::span<std::byte> memory_for(Peer peer, std::span<const std::byte> head, std::size_t bytes) override {
    if (of_scheduler(peer)) return {};
    return node.memory_for(peer, head, bytes);
  }
  void received(Peer peer, std::span<const std::byte> head, std::span<std::byte> payload) override {
    if (of_scheduler(peer)) return member->received(peer, head, Clock::now());
    // One poll may receive so many messages that heartbeats are due before it ends.
    if (++messages % kMessagesBetween == 0) kv_detail::keep_alive();
    try {
      node.received(peer, head, payload, Clock::now());
    } catch (const kv_detail::ReplicaDiverged&) {
      lost = std::current_exception();
      throw;
    }
  }

  void log_events() {
    if (!options.log) return void(node.take_events());
    for (const ServerEvent& event : node.take_events()) options.log(event);
    if (const auto event = stranger_log.look(*transport, Clock::now())) options.log(*event);
  }

  ServerStats current_stats() const {
    ServerStats now = node.stats(Clock::now());
    now.uptime = std::chrono::duration<double>(Clock::now() - begun).count();
    now.refused += transport->refused_connections().refused;
    return now;
  }

  void answer_stats() {
    std::lock_guard guard(mutex);
    if (!stats_wanted && !probed) return;
    if (stats_wanted) stats = current_stats();
    is_draining = node.is_draining();
    not_ready = node.reason_not_ready(Clock::now());
    // Without the scheduler this server does not know whether copies have changed, and no server would take
    // over from it.
    if (not_ready.empty() && member && !member->is_registered()) not_ready = "no scheduler: " + member->why();
    stats_wanted = probed = false;
    answered.notify_all();
  }

  void answer_administrators() {
    for (const auto& [peer, what] : node.take_admin_requests()) {
      const bool drains = what == kv_detail::AdminRequest::What::drain;
      if (drains) draining.store(true), drain();
      node.tell_administrator(peer, drains || !options.status ? "" : options.status(current_stats()));
    }
  }

  // Blocks until the server's thread has set is_draining and not_ready, if it runs. Returns the lock that
  // guards them.
  std::unique_lock<std::mutex> probe() {
    std::unique_lock lock(mutex);
    if (!running) return lock;
    probed = true;
    transport->wake();
    answered.wait(lock, [&] { return !probed || !running; });
    return lock;
  }

  void set_running(bool now) {
    std::lock_guard guard(mutex);
    running = now;
    answered.notify_all();
  }

  void drain() {
    if (member) member->leave();
    node.drain();
  }

  // Collects a piece of the state for a snapshot or a new backup. Returns whether there is more to collect.
  bool collect() {
    if (!node.has_more()) return false;
    const auto begin = Clock::now();
    if (!share_of_collecting.allows(begin)) return true;
    node.go_on();
    share_of_collecting.spend(begin, Clock::now());
    return node.has_more();
  }

  // Called during long work on the server's thread: tells the scheduler and workers that the server is alive.
  void keep_alive() {
    const auto now = Clock::now();
    if (member) member->keep_alive(now);
    node.keep_alive(now);
    transport->flush();
  }

  void serve() {
    const kv_detail::KeepAliveScope scope([this] { keep_alive(); });
    Clock::time_point next_tick = Clock::now();
    while (!stopping.load()) {
      const auto now = Clock::now();
      node.end_batch(now);
      if (now - next_tick > options.worker_timeout / 4) node.paused(now - next_tick);
      if (draining.load()) drain();
      if (now >= next_tick) {
        node.tick(Clock::now());
        next_tick = Clock::now() + tick;
      }
      log_events();
      answer_administrators();
      answer_stats();
      if (node.is_drained()) break;
      if (member) tick_member();
      const bool more = collect();
      node.count_answers();
      transport->poll(more ? std::min<std::chrono::microseconds>(tick, kShortSleep) : tick);
      if (lost) std::rethrow_exception(lost);
    }
    if (member) member->unregister();
    transport->poll(std::chrono::microseconds(0));  // sends the last replies
    node.finish_snapshots();
    for (const Peer peer : node.peers()) transport->close(peer);
    log_events();
  }

  const ServerOptions options;
  Engine engine{{.scheduler = Scheduler::naive}};
  std::unique_ptr<kv_detail::Transport> transport;
  const std::string address;
  const Clock::time_point begun;
  const std::unique_ptr<kv_detail::ServerNode> owned;
  kv_detail::ServerNode& node;
  std::unique_ptr<kv_detail::Member> member{};  // null: there is no scheduler
  Clock::time_point next_complaint = begun + kFirstComplaint;
  kv_detail::RefusalLog stranger_log;
  kv_detail::TimeBudget share_of_collecting{kPartsOfTime, kCollectAtOnce};
  const std::chrono::milliseconds tick = std::min(
      kv_detail::is_scheduled(options) ? kv_detail::kBeat / 2 : kIdleTick, options.snapshot_interval);
  // Why run() has to end: a change of a primary that failed here, a shard without valid snapshot, or a
  // refusal by the scheduler. Null: run() goes on.
  std::exception_ptr lost{};
  std::uint64_t messages = 0;  // number of messages received from workers and servers
  std::atomic<bool> stopping{false}, draining{false};
  std::mutex mutex;  // guards the members below
  std::condition_variable answered;
  bool running = false, stats_wanted = false, probed = false, is_draining = false;
  std::string not_ready{};
  ServerStats stats;
};

Server::Server(ServerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Server::~Server() = default;

const std::string& Server::address() const { return impl_->address; }

void Server::run() {
  Impl& mine = *impl_;
  const EngineScope scope(mine.engine);
  mine.set_running(true);
  try {
    mine.serve();
  } catch (...) {
    mine.set_running(false);
    throw;
  }
  mine.set_running(false);
}

void Server::drain() noexcept {
  impl_->draining.store(true);
  impl_->transport->wake();
}

void Server::stop() noexcept {
  impl_->stopping.store(true);
  impl_->transport->wake();
}

ServerStats Server::stats() const {
  Impl& mine = *impl_;
  std::unique_lock lock(mine.mutex);
  if (!mine.running) return mine.current_stats();
  mine.stats_wanted = true;
  mine.transport->wake();
  mine.answered.wait(lock, [&] { return !mine.stats_wanted || !mine.running; });
  return mine.stats;
}

bool Server::is_draining() const {
  const std::unique_lock lock = impl_->probe();
  return impl_->running ? impl_->is_draining : impl_->node.is_draining();
}

std::string Server::reason_not_ready() const {
  const std::unique_lock lock = impl_->probe();
  return impl_->running ? impl_->not_ready : impl_->node.reason_not_ready(Clock::now());
}

}  // namespace heddle
